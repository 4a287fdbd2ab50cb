//! What each filter finds, alone and with another.

use std::sync::Arc;

use duly::journal::Journal;
use duly::records::{Cause, NodeId, Numbered, Order, Outcome, Query};

use crate::journal::harness::JournalHarness;
use crate::journal::sample::{START_US, id, loaded, numbers, queue, record, trace, with};

const NONE: [u64; 0] = [];

/// A filter by its name, how it is asked for, and what it has to find, said in another way.
struct Filter {
    name: &'static str,
    ask: fn(&mut Query),
    finds: fn(&Numbered) -> bool,
}

const FROM: u64 = START_US / 1_000 + 100;
const TO: u64 = START_US / 1_000 + 180;

#[rustfmt::skip]
const FILTERS: &[Filter] = &[
    Filter {
        name: "id",
        ask: |query| query.id = Some(id(4)),
        finds: |(_, it)| it.id.entropy() == 4,
    },
    Filter {
        name: "queue",
        ask: |query| query.queue = Some(queue("sms")),
        finds: |(_, it)| it.queue.as_str() == "sms",
    },
    Filter {
        name: "outcome: acked",
        ask: |query| query.outcomes = vec![Outcome::Acked],
        finds: |(_, it)| it.outcome == Outcome::Acked,
    },
    Filter {
        name: "outcome: retried",
        ask: |query| query.outcomes = vec![Outcome::Retried],
        finds: |(_, it)| it.outcome == Outcome::Retried,
    },
    Filter {
        name: "cause",
        ask: |query| query.cause = Some(Cause::TimedOut),
        finds: |(_, it)| it.cause == Some(Cause::TimedOut),
    },
    Filter {
        name: "since",
        ask: |query| query.since = Some(duly::time::Timestamp::from_millis(FROM)),
        finds: |(_, it)| it.stages.finished_us >= FROM * 1_000,
    },
    Filter {
        name: "until",
        ask: |query| query.until = Some(duly::time::Timestamp::from_millis(TO)),
        finds: |(_, it)| it.stages.finished_us < TO * 1_000,
    },
    Filter {
        name: "key",
        ask: |query| query.key = Some("order:1".to_owned()),
        finds: |(_, it)| it.key.as_deref() == Some("order:1"),
    },
    Filter {
        name: "node",
        ask: |query| query.node = Some(NodeId(2)),
        finds: |(_, it)| it.node.0 == 2,
    },
    Filter {
        name: "trace",
        ask: |query| query.trace = Some(trace(1)),
        finds: |(_, it)| it.trace.is_some_and(|it| it.to_bytes()[15] == 1),
    },
    Filter {
        name: "error",
        ask: |query| query.error = Some("refused".to_owned()),
        finds: |(_, it)| it.error.as_deref() == Some("the partner refused it"),
    },
];

/// 240 records in which every filter and every pair of them finds something.
fn mixed() -> Vec<Numbered> {
    // Each field of its own, or some pairs would never meet.
    let pick = |n: u64, field: u64, of: u64| {
        let mixed = (n * 8 + field).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed >> 40) % of) as usize
    };
    let mixed = (0..240_u64).map(|n| {
        with(record(n + 1, n * 1_000), |it| {
            it.id = id(n % 7);
            it.queue = queue(["orders", "sms"][pick(n, 0, 2)]);
            it.outcome = [Outcome::Acked, Outcome::Retried, Outcome::Buried][pick(n, 1, 3)];
            it.cause = [None, Some(Cause::Failed), Some(Cause::TimedOut)][pick(n, 2, 3)];
            it.key = [None, Some("order:1"), Some("order:11")][pick(n, 3, 3)].map(str::to_owned);
            it.node = NodeId(pick(n, 4, 3) as u64);
            it.trace = [None, Some(trace(1)), Some(trace(2))][pick(n, 5, 3)];
            it.error = [None, Some("the partner refused it"), Some("Refused")][pick(n, 6, 3)]
                .map(str::to_owned);
        })
    });
    mixed.collect()
}

/// Asks in both orders, in small pages.
async fn expect(journal: &Arc<dyn Journal>, records: &[Numbered], filters: &[&Filter], what: &str) {
    let mut query = Query {
        limit: Some(17),
        ..Query::default()
    };
    for filter in filters {
        (filter.ask)(&mut query);
    }
    let is_found = |it: &&Numbered| filters.iter().all(|filter| (filter.finds)(it));
    let mut expected: Vec<u64> = records.iter().filter(is_found).map(|it| it.0).collect();
    assert!(!expected.is_empty(), "{what}: nothing to find");
    assert_eq!(numbers(journal, query.clone()).await, expected, "{what}");
    expected.reverse();
    query.order = Order::Newest;
    assert_eq!(
        numbers(journal, query).await,
        expected,
        "{what}, newest first"
    );
}

pub(crate) async fn each_filter_alone_finds_what_it_names(harness: &dyn JournalHarness) {
    let records = mixed();
    let subject = loaded(harness, &records).await;
    for filter in FILTERS {
        expect(&subject.journal(), &records, &[filter], filter.name).await;
    }
}

pub(crate) async fn each_pair_of_filters_finds_what_both_name(harness: &dyn JournalHarness) {
    let records = mixed();
    let subject = loaded(harness, &records).await;
    for (at, one) in FILTERS.iter().enumerate() {
        for other in &FILTERS[at + 1..] {
            if one.name.starts_with("outcome") && other.name.starts_with("outcome") {
                continue; // the one takes the place of the other
            }
            let what = format!("{} and {}", one.name, other.name);
            expect(&subject.journal(), &records, &[one, other], &what).await;
        }
    }
}

pub(crate) async fn several_outcomes_find_each_of_them(harness: &dyn JournalHarness) {
    let records = mixed();
    let subject = loaded(harness, &records).await;
    let asked: [&[Outcome]; 4] = [
        &[Outcome::Retried, Outcome::Buried],
        &[Outcome::Buried, Outcome::Acked],
        &[Outcome::Buried, Outcome::Buried, Outcome::Expired],
        &Outcome::ALL,
    ];
    for outcomes in asked {
        for of in [None, Some(queue("sms"))] {
            for order in [Order::Oldest, Order::Newest] {
                let query = Query {
                    outcomes: outcomes.to_vec(),
                    queue: of.clone(),
                    limit: Some(9),
                    order,
                    ..Query::default()
                };
                let is_found = |it: &&Numbered| {
                    outcomes.contains(&it.1.outcome)
                        && of.as_ref().is_none_or(|of| *of == it.1.queue)
                };
                let found = records.iter().filter(is_found).map(|it| it.0);
                let mut expected: Vec<u64> = found.collect();
                if order == Order::Newest {
                    expected.reverse();
                }
                assert_eq!(numbers(&subject.journal(), query).await, expected);
            }
        }
    }
}

pub(crate) async fn a_range_of_time_has_its_beginning_and_not_its_end(
    harness: &dyn JournalHarness,
) {
    let ms = START_US / 1_000;
    let times = [9_999, 10_000, 10_001, 19_999, 20_000, 20_001];
    let records: Vec<_> = times
        .into_iter()
        .zip(1..)
        .map(|(us, n)| record(n, us))
        .collect();
    let subject = loaded(harness, &records).await;
    let range = |since: Option<u64>, until: Option<u64>| Query {
        since: since.map(duly::time::Timestamp::from_millis),
        until: until.map(duly::time::Timestamp::from_millis),
        ..Query::default()
    };
    let journal = subject.journal();
    let found = numbers(&journal, range(Some(ms + 10), Some(ms + 20))).await;
    assert_eq!(found, [2, 3, 4]);
    assert_eq!(numbers(&journal, range(Some(ms + 20), None)).await, [5, 6]);
    assert_eq!(numbers(&journal, range(None, Some(ms + 10))).await, [1]);
    assert_eq!(
        numbers(&journal, range(Some(ms + 20), Some(ms + 20))).await,
        NONE
    );
    assert_eq!(
        numbers(&journal, range(Some(ms + 20), Some(ms + 10))).await,
        NONE
    );
    assert_eq!(
        numbers(&journal, range(Some(0), Some(u64::MAX)))
            .await
            .len(),
        6
    );
    assert_eq!(numbers(&journal, range(Some(u64::MAX), None)).await, NONE);
    assert_eq!(numbers(&journal, range(None, Some(0))).await, NONE);
}

pub(crate) async fn a_text_in_an_error_is_found_as_it_is_written(harness: &dyn JournalHarness) {
    let errors = [
        "100% of_it",
        "100 of it",
        "a\\b",
        "Groß",
        "groß",
        "'; --",
        "x*y?[z]",
    ];
    let records: Vec<_> = errors
        .into_iter()
        .zip(1..)
        .map(|(error, n)| with(record(n, n), |it| it.error = Some(error.to_owned())))
        .collect();
    let subject = loaded(harness, &records).await;
    for (text, expected) in [
        ("%", vec![1]),
        ("_", vec![1]),
        ("100", vec![1, 2]),
        ("\\", vec![3]),
        ("Gro", vec![4]),
        ("roß", vec![4, 5]),
        ("';", vec![6]),
        ("*y?[", vec![7]),
        ("", vec![1, 2, 3, 4, 5, 6, 7]),
        ("GROSS", vec![]),
    ] {
        let query = Query {
            error: Some(text.to_owned()),
            ..Query::default()
        };
        assert_eq!(
            numbers(&subject.journal(), query).await,
            expected,
            "`{text}`"
        );
    }
}

pub(crate) async fn what_nobody_has_finds_nothing(harness: &dyn JournalHarness) {
    let subject = loaded(harness, &mixed()).await;
    let nobody: [fn(&mut Query); 7] = [
        |query| query.id = Some(id(99)),
        |query| query.queue = Some(queue("nobody")),
        |query| query.outcomes = vec![Outcome::Dropped],
        |query| query.key = Some(String::new()),
        |query| query.node = Some(NodeId(u64::MAX)),
        |query| query.trace = Some(trace(9)),
        |query| query.error = Some("no such text".to_owned()),
    ];
    for ask in nobody {
        let mut query = Query::default();
        ask(&mut query);
        assert_eq!(
            numbers(&subject.journal(), query.clone()).await,
            NONE,
            "{query:?}"
        );
    }
}
