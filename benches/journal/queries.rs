//! Pages of every query, at the beginning, in the middle and near the end, in both orders.

use std::time::Duration;

use duly::EventId;
use duly::records::{Cause, Cursor, MinuteQuery, Order, Outcome, Query};
use duly::time::Timestamp;
use tokio::time::Instant;

use crate::contender::Contender;
use crate::{Result, records};

/// How often each page is read.
const TIMES: usize = 5;

/// A query by what it is asked for.
type Asked = (&'static str, Query);

fn asked(many: u64) -> Vec<Asked> {
    let middle = many / 2;
    let first = |is: &dyn Fn(u64) -> bool| (middle..many).find(|n| is(*n)).unwrap_or(0);
    let at = |n: u64| Timestamp::from_millis(records::finished_us(n) / 1_000);
    let queue = || records::QUEUES[0].parse().ok();
    let rare = || records::QUEUES[5].parse().ok();
    let all = Query::default;
    vec![
        ("everything", all()),
        (
            "a range of time",
            Query {
                since: Some(at(many / 4)),
                until: Some(at(many / 4 * 3)),
                ..all()
            },
        ),
        (
            "one event",
            Query {
                id: Some(records::id(middle)),
                ..all()
            },
        ),
        (
            "a queue",
            Query {
                queue: queue(),
                ..all()
            },
        ),
        (
            "a queue with few records",
            Query {
                queue: rare(),
                ..all()
            },
        ),
        (
            "a node",
            Query {
                node: Some(records::node(middle)),
                ..all()
            },
        ),
        (
            "a node and a queue",
            Query {
                node: Some(records::node(middle)),
                queue: queue(),
                ..all()
            },
        ),
        (
            "a key",
            Query {
                key: records::key(first(&|n| records::key(n).is_some())),
                ..all()
            },
        ),
        (
            "a trace",
            Query {
                trace: records::trace(first(&|n| records::trace(n).is_some())),
                ..all()
            },
        ),
        (
            "outcome: acked",
            Query {
                outcomes: vec![Outcome::Acked],
                ..all()
            },
        ),
        (
            "outcome: buried",
            Query {
                outcomes: vec![Outcome::Buried],
                ..all()
            },
        ),
        (
            "outcomes: what failed",
            Query {
                outcomes: vec![Outcome::Retried, Outcome::Buried, Outcome::LeaseLost],
                ..all()
            },
        ),
        (
            "what failed in a queue",
            Query {
                outcomes: vec![Outcome::Retried, Outcome::Buried, Outcome::LeaseLost],
                queue: queue(),
                ..all()
            },
        ),
        (
            "outcome nobody had",
            Query {
                outcomes: vec![Outcome::Dropped],
                ..all()
            },
        ),
        (
            "cause: timed out",
            Query {
                cause: Some(Cause::TimedOut),
                ..all()
            },
        ),
        (
            "a text in the error",
            Query {
                error: Some("partner 7 ".to_owned()),
                ..all()
            },
        ),
        (
            "a text that no error has",
            Query {
                error: Some("no such text".to_owned()),
                ..all()
            },
        ),
        (
            "a text, in a queue",
            Query {
                error: Some("partner 7 ".to_owned()),
                queue: queue(),
                ..all()
            },
        ),
        (
            "acked, of a rare queue",
            Query {
                outcomes: vec![Outcome::Acked],
                queue: rare(),
                ..all()
            },
        ),
        (
            "a node, in a rare queue",
            Query {
                node: Some(records::node(middle)),
                queue: rare(),
                ..all()
            },
        ),
        (
            "a node without records",
            Query {
                node: Some(duly::records::NodeId(1)),
                ..all()
            },
        ),
        (
            "a node, nothing acked yet",
            Query {
                node: Some(records::node(middle)),
                outcomes: vec![Outcome::Acked, Outcome::Dropped],
                cause: Some(Cause::Panicked),
                ..all()
            },
        ),
    ]
}

pub(crate) async fn run(contender: &dyn Contender, many: u64) -> Result {
    println!(
        "\n{}: a page of 100 among {many} records, {TIMES} times each",
        contender.name()
    );
    println!(
        "{:<28} {:<7} {:>9} {:>9} {:>9} {:>9} {:>6}",
        "ms", "order", "first", "middle", "last", "worst", "found"
    );
    let mut worst = Duration::ZERO;
    let mut plans = Vec::new();
    for (name, query) in asked(many) {
        for order in [Order::Oldest, Order::Newest] {
            let mut times = Vec::new();
            let mut found = 0;
            for part in [None, Some(many / 2), Some(many - many / 1_000)] {
                let query = Query {
                    order,
                    after: part.map(|part| place(part, many, order)),
                    ..query.clone()
                };
                let mut longest = Duration::ZERO;
                for _ in 0..TIMES {
                    let began = Instant::now();
                    found += contender.journal().page(query.clone()).await?.records.len();
                    longest = longest.max(began.elapsed());
                }
                times.push(longest);
            }
            let most = times.iter().max().copied().unwrap_or_default();
            worst = worst.max(most);
            let ms = |at: usize| times[at].as_secs_f64() * 1e3;
            let order = format!("{order:?}").to_lowercase();
            println!(
                "{name:<28} {order:<7} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>6}",
                ms(0),
                ms(1),
                ms(2),
                most.as_secs_f64() * 1e3,
                found / TIMES
            );
        }
        plans.push((name, contender.plan(query).await?));
    }
    println!("longest page: {:.2} ms", worst.as_secs_f64() * 1e3);
    minutes(contender, many).await?;
    println!("\n{}: the ways of the queries", contender.name());
    for (name, plan) in plans {
        println!("{name:<28} {}", plan.join("; "));
    }
    Ok(())
}

/// After so many records in that order.
fn place(part: u64, many: u64, order: Order) -> Cursor {
    let n = match order {
        Order::Oldest => part,
        Order::Newest => many - part,
    };
    Cursor {
        finished_us: records::finished_us(n),
        number: n + 1,
        id: EventId::from_bytes([0; 16]),
    }
}

async fn minutes(contender: &dyn Contender, many: u64) -> Result {
    for (name, queue) in [
        ("of all queues", None),
        ("of a queue", records::QUEUES[0].parse().ok()),
    ] {
        let since = Timestamp::from_millis(records::finished_us(many) / 1_000 - 3_600_000);
        let query = MinuteQuery {
            queue,
            since: Some(since),
            ..MinuteQuery::default()
        };
        let mut longest = Duration::ZERO;
        let mut found = 0;
        for _ in 0..TIMES {
            let began = Instant::now();
            found = contender.journal().minutes(query.clone()).await?.len();
            longest = longest.max(began.elapsed());
        }
        let ms = longest.as_secs_f64() * 1e3;
        println!("minutes {name}, the last hour: {found} in {ms:.2} ms");
    }
    Ok(())
}
