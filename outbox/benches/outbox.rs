//! What a push in a transaction costs: beside the transaction without it, and beside a direct push.
//!
//! `cargo bench -p duly-outbox --all-features`; `DULY_BENCH_ROUNDS` sets how often each is measured.

#![allow(clippy::print_stdout)]

#[path = "../../tests/servers/mod.rs"]
mod servers;

use std::time::Duration;

use duly::prelude::*;
use duly_outbox::{Database, PushIn, Relay, RelayOptions, schema};
use servers::{Postgres, PostgresOptions, prefix, shared};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::{Client, NoTls};

/// Transactions of a round of the first measurement.
const TRANSACTIONS: u64 = 500;
/// Events of a round of the second, and of one of its transactions.
const EVENTS: u64 = 20_000;
const EVENTS_OF_TRANSACTION: u64 = 100;
/// Events of the third.
const LATE_EVENTS: u64 = 500;

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[delay_event(queue = "late", register = false)]
async fn late(
    event: Event<u64>,
    handled: duly::State<mpsc::UnboundedSender<(u64, Instant)>>,
) -> Result<(), Failure> {
    handled.send((event.payload, Instant::now())).ok();
    Ok(())
}

async fn client(url: &str) -> Result<Client, Failed> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let rounds = std::env::var("DULY_BENCH_ROUNDS").map_or(Ok(5), |text| text.parse())?;
    let server = Postgres::start(PostgresOptions::default());
    server.sql("create table orders (id bigint, customer text, note text)");
    server.sql(schema(Database::Postgres));
    let mut client = client(&server.url()).await?;
    let (handled, handled_at) = mpsc::unbounded_channel();
    let store = format!("{}?prefix={}", shared().url(), prefix());
    let builder = Bus::builder().only_registered().store_url(&store);
    let bus = builder.register(late {}).state(handled).start().await?;
    let (mut plain, mut pushing) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        plain.push(transactions(&mut client, None).await?);
        let queue = bus.queue_named::<u64>("orders")?;
        pushing.push(transactions(&mut client, Some(&queue)).await?);
    }
    // Without a relay, whose work is measured next.
    let (plain, pushing) = (median(plain), median(pushing));
    println!(
        "a transaction with one insert: {:.0} us, and with a push: {:.0} us, {:.2} of it",
        1e6 * plain / TRANSACTIONS as f64,
        1e6 * pushing / TRANSACTIONS as f64,
        pushing / plain
    );

    let config = server.url().parse()?;
    let relay = Relay::tokio_postgres(&bus, config, NoTls, RelayOptions::default()).await?;

    let (mut direct, mut outbox) = (Vec::new(), Vec::new());
    let queue = bus.queue_named::<u64>("many")?;
    for _ in 0..rounds {
        let began = Instant::now();
        for first in (0..EVENTS).step_by(EVENTS_OF_TRANSACTION as usize) {
            let many = first..first + EVENTS_OF_TRANSACTION;
            queue.push_many(many, Duration::from_secs(3_600)).await?;
        }
        direct.push(began.elapsed().as_secs_f64());
        outbox.push(through_the_outbox(&mut client, &queue).await?);
    }
    let (direct, outbox) = (median(direct), median(outbox));
    println!(
        "events in hundreds: direct {:.0}/s, by the outbox until all are accepted {:.0}/s, {:.2} of it",
        EVENTS as f64 / direct,
        EVENTS as f64 / outbox,
        direct / outbox
    );

    let mut late = lateness(&mut client, &bus.queue::<late>(), handled_at).await?;
    late.sort_unstable();
    let part = |part: usize| late[(late.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!(
        "from the commit to the handler: p50 {:.1} ms, p99 {:.1} ms",
        part(50),
        part(99)
    );
    relay.stop().await;
    Ok(bus.shutdown(Duration::from_secs(10)).await?)
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_unstable_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Returns the seconds of a round of transactions that insert an order, and push if there is a queue.
async fn transactions(client: &mut Client, queue: Option<&Queue<u64>>) -> Result<f64, Failed> {
    let began = Instant::now();
    for id in 0..TRANSACTIONS {
        let mut tx = client.transaction().await?;
        let order = "insert into orders values ($1, 'Ada', 'a note of some length')";
        tx.query_typed(order, &[(&(id as i64), tokio_postgres::types::Type::INT8)])
            .await?;
        if let Some(queue) = queue {
            queue
                .push_in(&mut tx, id, Duration::from_secs(3_600))
                .await?;
        }
        tx.commit().await?;
    }
    Ok(began.elapsed().as_secs_f64())
}

async fn through_the_outbox(client: &mut Client, queue: &Queue<u64>) -> Result<f64, Failed> {
    let began = Instant::now();
    for first in (0..EVENTS).step_by(EVENTS_OF_TRANSACTION as usize) {
        let many = first..first + EVENTS_OF_TRANSACTION;
        let mut tx = client.transaction().await?;
        queue
            .push_many_in(&mut tx, many, Duration::from_secs(3_600))
            .await?;
        tx.commit().await?;
    }
    let open = "select exists (select from duly_outbox o, (select done from duly_outbox_step \
                order by n desc limit 1) as s where o.xid >= pg_snapshot_xmax(s.done))";
    while client.query_one(open, &[]).await?.get::<_, bool>(0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Returns how long each event took from its commit to its handler, pushed one after the other.
async fn lateness(
    client: &mut Client,
    queue: &Queue<u64>,
    mut handled: mpsc::UnboundedReceiver<(u64, Instant)>,
) -> Result<Vec<Duration>, Failed> {
    let mut late = Vec::new();
    for number in 0..LATE_EVENTS {
        let mut tx = client.transaction().await?;
        queue.push_in(&mut tx, number, When::Now).await?;
        tx.commit().await?;
        let committed = Instant::now();
        let (_, at) = handled.recv().await.ok_or("the handler is gone")?;
        late.push(at.saturating_duration_since(committed));
        // Not in step with the relay's polls.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..15_000))).await;
    }
    Ok(late)
}
