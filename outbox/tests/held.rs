//! A transaction that stays open beside a steady load of pushes: none is passed over, and neither
//! latency nor dead rows grow.
//!
//! `DULY_OUTBOX_HELD_SECONDS` and `DULY_OUTBOX_RATE` say for how long and how many events a second;
//! `tests/long.sh held` runs five minutes of 2,000.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use duly::prelude::*;
use duly_outbox::{Database, PushIn, Relay, RelayOptions, schema};
use parking_lot::Mutex;
use sqlx::{Connection, MySqlConnection};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::NoTls;

use crate::load::number;
use crate::servers::{Postgres, PostgresOptions};
use crate::world::{client, eventually};

mod ends;
mod reads;
mod view;

/// Events of a transaction.
const EVENTS: u64 = 20;
/// The number of the event that the held transaction pushes.
const HELD: u64 = u64::MAX;

/// So many rows are dead that the test itself makes.
const CONTROL: i64 = 100;
/// The quickest tenth of the second half may take so many times the median of those before; beside
/// other programs a tenth takes what it takes.
const GROWTH_MAX: u32 = 3;
/// What takes less than this is as quick.
const UNNOTICED: Duration = Duration::from_millis(50);

/// When events were handled, and how often.
#[derive(Clone, Default)]
struct Handled(Arc<Mutex<HashMap<u64, (Instant, u32)>>>);

#[delay_event(queue = "steady", register = false, workers = 16)]
async fn steady(event: Event<u64>, handled: duly::State<Handled>) -> Result<(), Failure> {
    let mut handled = handled.0.0.lock();
    handled
        .entry(event.payload)
        .or_insert((Instant::now(), 0))
        .1 += 1;
    Ok(())
}

/// A bus on memory whose handler notes what it gets.
async fn steady_bus() -> (Bus, Handled) {
    let handled = Handled::default();
    let builder = Bus::builder().only_registered().store_url("memory:");
    let builder = builder.register(steady {}).state(handled.clone());
    (builder.start().await.unwrap(), handled)
}

/// A connection that pushes.
enum Pusher {
    Postgres(tokio_postgres::Client),
    Mysql(MySqlConnection),
}

impl Pusher {
    async fn commit(&mut self, queue: &Queue<u64>, many: Range<u64>) {
        match self {
            Self::Postgres(client) => {
                let mut tx = client.transaction().await.unwrap();
                queue.push_many_in(&mut tx, many, When::Now).await.unwrap();
                tx.commit().await.unwrap();
            }
            Self::Mysql(connection) => {
                let mut tx = connection.begin().await.unwrap();
                queue.push_many_in(&mut tx, many, When::Now).await.unwrap();
                tx.commit().await.unwrap();
            }
        }
    }
}

/// When each transaction was committed, by the number of its first event.
type Committed = Vec<(u64, Instant)>;

/// Pushes at a steady rate.
struct Pushes {
    next: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    task: JoinHandle<Committed>,
}

impl Pushes {
    fn start(mut pusher: Pusher, queue: Queue<u64>, rate: u64) -> Self {
        let (next, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (numbers, ends) = (Arc::clone(&next), Arc::clone(&is_over));
        let task = tokio::spawn(async move {
            let pace = Duration::from_secs_f64(EVENTS as f64 / rate as f64);
            let mut pace = tokio::time::interval(pace);
            let mut committed = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                pace.tick().await;
                let first = numbers.fetch_add(EVENTS, Ordering::Relaxed);
                pusher.commit(&queue, first..first + EVENTS).await;
                committed.push((first, Instant::now()));
            }
            committed
        });
        Self {
            next,
            is_over,
            task,
        }
    }

    /// Ends; returns how many events were pushed.
    async fn end(self) -> (usize, Committed) {
        self.is_over.store(true, Ordering::Relaxed);
        let committed = self.task.await.unwrap();
        let pushed = usize::try_from(self.next.load(Ordering::Relaxed)).unwrap();
        (pushed, committed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_transaction_passes_nothing_over_and_slows_nothing_down() {
    let seconds = number("DULY_OUTBOX_HELD_SECONDS", 3);
    let rate = number("DULY_OUTBOX_RATE", 300);
    let server = Postgres::start(PostgresOptions::default());
    server.sql(schema(Database::Postgres));
    let (bus, handled) = steady_bus().await;
    let queue = bus.queue::<steady>();
    let config = server.url().parse().unwrap();
    let relay = Relay::tokio_postgres(&bus, config, NoTls, RelayOptions::default())
        .await
        .unwrap();
    let watch = client(&server.url()).await;
    let pusher = Pusher::Postgres(client(&server.url()).await);
    let pushes = Pushes::start(pusher, queue.clone(), rate);

    // The pace of the phases; nothing is concluded from it.
    let around = Duration::from_secs(seconds.min(30));
    tokio::time::sleep(around).await;
    let mut held = client(&server.url()).await;
    let held = {
        let mut tx = held.transaction().await.unwrap();
        queue.push_in(&mut tx, HELD, When::Now).await.unwrap();
        // And a snapshot, under which no dead row may be taken away.
        let mut old = client(&server.url()).await;
        let isolation = tokio_postgres::IsolationLevel::RepeatableRead;
        let old = old.build_transaction().isolation_level(isolation).start();
        let old = old.await.unwrap();
        old.query("select count(*) from pg_class", &[])
            .await
            .unwrap();
        let control = format!(
            "create table control (n integer); \
             insert into control select generate_series(1, {CONTROL}); update control set n = 0"
        );
        watch.batch_execute(&control).await.unwrap();
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let is_early = handled.0.lock().contains_key(&HELD);
        assert!(!is_early, "handled before its commit");
        let dead = dead_rows(&watch, "duly%").await;
        let of_control = async || dead_rows(&watch, "control").await == CONTROL;
        eventually("dead rows are counted", of_control).await;
        old.rollback().await.unwrap();
        tx.commit().await.unwrap();
        println!("dead rows at the end of the held transaction: {dead}");
        // But for the limit of ends nothing is updated or deleted, however many events there are.
        let most = 10 + i64::try_from(rate * seconds / 1_000).unwrap();
        assert!(dead <= most, "{dead} dead rows, not {most} at most");
        (began, Instant::now())
    };
    tokio::time::sleep(around).await;
    conclude(held, pushes.end().await, &handled).await;
    relay.stop().await;
    bus.shutdown(Duration::from_secs(10)).await.unwrap();
}

/// Waits until all events are handled, and the held one; none was twice, and it did not take longer and longer from their
/// commit to their handler while something was held.
async fn conclude(
    held: (Instant, Instant),
    (pushed, committed): (usize, Committed),
    handled: &Handled,
) {
    let all = async || handled.0.lock().len() == pushed + 1;
    eventually("every committed event is handled", all).await;
    let handled = handled.0.lock().clone();
    assert!(handled.values().all(|(_, times)| *times == 1), "doubled");
    report("before", &committed, &handled, |at| at < held.0);
    report("during", &committed, &handled, |at| {
        (held.0..held.1).contains(&at)
    });
    // By its tenths, which show a growth.
    let tenth = (held.1 - held.0) / 10;
    let medians = (0..10).map(|part| {
        let (from, to) = (held.0 + tenth * part, held.0 + tenth * (part + 1));
        let what = format!("during, part {part}");
        report(&what, &committed, &handled, |at| (from..to).contains(&at))
    });
    let mut medians: Vec<_> = medians.flatten().collect();
    assert!(medians.len() > 5, "events in most parts: {medians:?}");
    let mut last = medians.split_off(medians.len() / 2);
    medians.sort_unstable();
    last.sort_unstable();
    // Of what grows with the time that something is held, the quickest part is of the first half.
    let most = GROWTH_MAX * medians[medians.len() / 2].max(UNNOTICED);
    assert!(last[0] <= most, "slower and slower: {medians:?}, {last:?}");
    report("after", &committed, &handled, |at| at >= held.1);
}

async fn dead_rows(client: &tokio_postgres::Client, tables: &str) -> i64 {
    let sql = "select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables \
               where relname like $1";
    client.query_one(sql, &[&tables]).await.unwrap().get(0)
}

/// Prints how long events took from their commit to their handler, and returns the median.
fn report(
    what: &str,
    committed: &[(u64, Instant)],
    handled: &HashMap<u64, (Instant, u32)>,
    is_meant: impl Fn(Instant) -> bool,
) -> Option<Duration> {
    let mut took = Vec::new();
    for (first, at) in committed.iter().filter(|(_, at)| is_meant(*at)) {
        for event in *first..first + EVENTS {
            took.push(handled[&event].0.saturating_duration_since(*at));
        }
    }
    took.sort_unstable();
    let last = took.len().checked_sub(1)?;
    let part = |part: usize| took[last * part / 1_000].as_secs_f64() * 1e3;
    println!(
        "{what}: {} events, p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, most {:.1} ms",
        took.len(),
        part(500),
        part(990),
        part(999),
        part(1_000)
    );
    Some(took[last / 2])
}

/// A lock that is taken goes to the standbys, where whoever reads that partition holds up all that the
/// primary does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_kept_is_not_locked_by_a_sweep() {
    let more = vec!["log_statement=all".to_owned()];
    let server = Postgres::start(PostgresOptions { tls: false, more });
    server.sql(schema(Database::Postgres));
    let builder = Bus::builder().publish_only().store_url("memory:");
    let bus = builder.start().await.unwrap();
    let relay = async || {
        let (url, options) = (server.url(), RelayOptions::default());
        Relay::connect(&bus, &url, options).await.unwrap()
    };
    let first = relay().await;
    let client = client(&server.url()).await;
    let step = "select from duly_outbox_step limit 1";
    let has_begun = async || client.query_opt(step, &[]).await.unwrap().is_some();
    eventually("the relay has begun", has_begun).await;
    first.stop().await;
    // Another relay is at work, and has what waits in each partition.
    let held = "insert into duly_outbox_step select n + 1, part, clock_timestamp(), cluster, done, \
                reading, passed_xid, passed_n, repeated, 'another', \
                clock_timestamp() + interval '58 s' from duly_outbox_step order by n desc limit 1; \
                insert into duly_outbox (part, event) select part, '' from generate_series(0, 2) as part";
    client.batch_execute(held).await.unwrap();
    client
        .batch_execute("begin; select from duly_outbox")
        .await
        .unwrap();
    let second = relay().await;
    let log = || std::fs::read_to_string(server.folder().join("postgres.log")).unwrap();
    let is_swept = async || log().matches("truncate duly_outbox_").count() > 0;
    eventually("the relay has swept", is_swept).await;
    second.stop().await;
    assert!(!log().contains("could not obtain lock"), "{}", log());
}
