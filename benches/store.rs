//! A benchmark of the embedded store against plain SQLite with the same work in the same run.
//!
//! `cargo bench --bench store` prints rates and their ratio to the baseline; `-- --quick` does a
//! tenth of the work, and `-- push`, `settle`, `open` or `pass` only that part; `--million 10` does
//! it with so many events. Ratios travel between machines, rates do not.
//!
//! `open` opens a closed file in a process of its own, which says how much memory it has then.
//!
//! `pass` scans all waiting events, page by page, as a re-encryption does: of one queue in the
//! embedded store and on Redis, with a hundredth of the events and with all of them. The cost of a
//! page must not depend on their number.

#![allow(clippy::print_stdout)] // a bench talks

#[path = "../tests/servers/mod.rs"]
mod servers;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duly::admin::ReencryptReport;
use duly::codec::{Key, KeyRing};
use duly::event::{BucketId, BucketKey, Envelope, Payload};
use duly::prelude::*;
use duly::records::NodeId;
use duly::store::operation::{
    AttemptOutcome, Fetch, FetchReport, NewEvent, Reply, Settlement, StartMark, StoreOp,
};
use duly::store::{EmbeddedStore, Store};
use duly::time::{Clock, SystemClock, When};
use duly::{EventId, Unique};
use futures_util::stream::{self, StreamExt};

const QUEUE: &str = "order-close";
const BATCH: usize = 500;
const NODE: NodeId = NodeId(1);

struct Bench {
    clock: SystemClock,
    events: usize,
    base: f64,
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let value_of = |name: &str| {
        let at = asked.iter().position(|arg| arg == name)?;
        asked.get(at + 1)
    };
    if let Some(directory) = value_of("--reopen") {
        return reopen(Path::new(directory));
    }
    let million = value_of("--million").and_then(|many| many.parse::<usize>().ok());
    let quick = asked.iter().any(|arg| arg == "--quick");
    let words: Vec<_> = asked.iter().filter(|arg| !arg.starts_with("--")).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| *word == name);
    let mut bench = Bench {
        clock: SystemClock::new(),
        events: match million {
            Some(million) => million * 1_000_000,
            None if quick => 100_000,
            None => 1_000_000,
        },
        base: 1.0,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    bench.base(BATCH);
    bench.base_of_64();
    if wanted("push") {
        for in_flight in [1, 8] {
            runtime.block_on(bench.push_batches(in_flight));
        }
        runtime.block_on(bench.push_singles(64));
    }
    if wanted("settle") {
        runtime.block_on(bench.settle());
    }
    if wanted("open") {
        runtime.block_on(bench.open());
    }
    if wanted("pass") {
        let directory = tempfile::tempdir().expect("a directory");
        let server = servers::Redis::plain();
        for events in [bench.events / 100, bench.events] {
            let file = directory.path().join(events.to_string());
            let url = format!("sqlite://{}", file.display());
            runtime.block_on(bench.pass("embedded", &url, events));
            let url = format!("{}?prefix=n{events}", server.url());
            runtime.block_on(bench.pass("redis", &url, events));
        }
    }
}

impl Bench {
    fn report(&mut self, what: &str, events: usize, took: Duration, is_base: bool) {
        let rate = events as f64 / took.as_secs_f64();
        if is_base {
            self.base = rate;
        }
        println!(
            "{what:<44} {rate:>12.0}/s {:>7.3} s   {:>6.2} of the base",
            took.as_secs_f64(),
            rate / self.base
        );
    }

    fn timed<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let start = self.clock.mono();
        let done = work();
        (done, self.clock.mono().since(start))
    }

    /// Bare SQLite: the same rows, appended in the same batches, each one synced.
    fn base(&mut self, batch: usize) {
        let directory = tempfile::tempdir().expect("a directory");
        let connection = bare(directory.path());
        let body = vec![7_u8; 124];
        let ((), took) = self.timed(|| append(&connection, self.events, batch, &body));
        self.report(
            &format!("bare rusqlite, batches of {batch}"),
            self.events,
            took,
            true,
        );
    }

    /// The same in batches of what 64 callers can have in flight.
    fn base_of_64(&mut self) {
        let directory = tempfile::tempdir().expect("a directory");
        let connection = bare(directory.path());
        let body = vec![7_u8; 124];
        let events = self.events / 4;
        let ((), took) = self.timed(|| append(&connection, events, 64, &body));
        self.report("bare rusqlite, batches of 64", events, took, false);
    }

    async fn push_batches(&mut self, in_flight: usize) {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        let batches: Vec<_> = self.batches(self.events, BATCH, Duration::from_secs(60));
        let start = self.clock.mono();
        stream::iter(batches)
            .map(|batch| store.apply(&key(), StoreOp::Push(batch)))
            .buffer_unordered(in_flight)
            .for_each(|pushed| async { drop(pushed.expect("a push")) })
            .await;
        let took = self.clock.mono().since(start);
        let what = format!("push, batches of {BATCH}, {in_flight} in flight");
        self.report(&what, self.events, took, false);
    }

    async fn push_singles(&mut self, in_flight: usize) {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        let events = self.events / 4;
        let singles: Vec<_> = self.batches(events, 1, Duration::from_secs(60));
        let start = self.clock.mono();
        stream::iter(singles)
            .map(|single| store.apply(&key(), StoreOp::Push(single)))
            .buffer_unordered(in_flight)
            .for_each(|pushed| async { drop(pushed.expect("a push")) })
            .await;
        let took = self.clock.mono().since(start);
        self.report(
            &format!("push, one by one, {in_flight} in flight"),
            events,
            took,
            false,
        );
    }

    async fn settle(&mut self) {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        for batch in self.batches(self.events, BATCH, Duration::ZERO) {
            store
                .apply(&key(), StoreOp::Push(batch))
                .await
                .expect("a push");
        }
        let mut leased = Vec::new();
        for request in 0.. {
            let fetch = StoreOp::Fetch(Fetch {
                node: NODE,
                request,
                limit: 1_000,
                ahead: Duration::ZERO,
                ahead_limit: 0,
                hold: None,
                starts: usize::MAX,
            });
            let answer = store.apply(&key(), fetch).await.expect("a fetch");
            let Reply::Fetched(FetchReport { deliveries, .. }) = answer.reply else {
                unreachable!("a fetch is answered with deliveries")
            };
            if deliveries.is_empty() {
                break;
            }
            leased.extend(deliveries.iter().map(|delivery| Settlement {
                id: delivery.id,
                request: delivery.request,
                verdict: AttemptOutcome::Ack,
                started_us: answer.now_us,
                fetched_us: answer.now_us,
            }));
        }
        let settles: Vec<_> = leased.chunks(256).map(<[Settlement]>::to_vec).collect();
        let start = self.clock.mono();
        stream::iter(settles)
            .map(|settlements| {
                let node = NODE;
                store.apply(
                    &key(),
                    StoreOp::Settle {
                        node,
                        settlements,
                        started: StartMark::default(),
                    },
                )
            })
            .buffer_unordered(8)
            .for_each(|settled| async { drop(settled.expect("a settle")) })
            .await;
        let took = self.clock.mono().since(start);
        self.report(
            "settle (record and delete), batches of 256",
            leased.len(),
            took,
            false,
        );
    }

    async fn open(&mut self) {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..self.events / 100_000 {
            // Due within a day, in eight buckets.
            for mut batch in self.batches(100_000, BATCH, Duration::ZERO) {
                let bucket = BucketId(random.u16(0..8));
                for event in &mut batch {
                    let id = EventId::from_parts(self.clock.now(), bucket, random.u64(..));
                    Arc::make_mut(&mut event.envelope).id = id;
                    event.when = When::from(Duration::from_millis(random.u64(0..86_400_000)));
                }
                let key = BucketKey::new(QUEUE.parse().expect("a legal name"), bucket);
                let pushed = store.apply(&key, StoreOp::Push(batch));
                pushed.await.expect("a push");
            }
        }
        store.close().await.expect("a close");
        drop(store);
        let me = std::env::current_exe().expect("this program");
        let mut again = std::process::Command::new(me);
        let again = again.arg("--reopen").arg(directory.path()).output();
        let said = String::from_utf8(again.expect("a run").stdout).expect("a text");
        let (took, bytes) = said.trim().split_once(' ').expect("two numbers");
        let took = Duration::from_micros(took.parse().expect("microseconds"));
        self.report("open", self.events, took, false);
        let bytes: usize = bytes.parse().expect("bytes");
        println!(
            "{:<44} {:>12} bytes an event",
            "memory of the open store",
            bytes / self.events
        );
    }

    async fn pass(&self, name: &str, url: &str, events: usize) {
        let keys = KeyRing::new();
        let chosen = keys.add("k", Key::new([7; 32])).and(keys.choose("k"));
        chosen.expect("a key");
        let builder = Bus::builder().settings(Default::default()).store_url(url);
        let builder = builder.publish_only().keys(keys);
        let bus = builder.start().await.expect("a start");
        let queue = bus.queue_named::<String>(QUEUE).expect("a legal name");
        for _ in 0..events / BATCH {
            let delay = Duration::from_secs(fastrand::u64(3_600..86_400));
            let batch = (0..BATCH).map(|_| "x".repeat(64));
            queue.push_many(batch, delay).await.expect("a push");
        }
        let (mut place, mut looked, mut pages) = (None, 0, Vec::new());
        loop {
            let page = bus.reencrypt(QUEUE).limit(100).after(place);
            let began = self.clock.mono();
            let page = page.run().await.and_then(ReencryptReport::finished);
            let page = page.expect("a page");
            pages.push(self.clock.mono().since(began));
            looked += page.looked;
            place = page.next;
            if place.is_none() {
                break;
            }
        }
        let whole: Duration = pages.iter().sum();
        pages.sort();
        println!(
            "{name}: a pass through {looked} events in {} pages took {:.2} s; a page {:.2} ms, the \
             longest {:.2} ms",
            pages.len(),
            whole.as_secs_f64(),
            pages[pages.len() / 2].as_secs_f64() * 1_000.0,
            pages[pages.len() - 1].as_secs_f64() * 1_000.0,
        );
        bus.shutdown(Duration::from_secs(5)).await.expect("a stop");
    }

    fn batches(&self, events: usize, batch: usize, delay: Duration) -> Vec<Vec<NewEvent>> {
        let now = self.clock.now();
        let mut random = fastrand::Rng::with_seed(7);
        let mut made = 0;
        let mut one = |random: &mut fastrand::Rng| {
            // As if 400 were made in each millisecond.
            made += 1;
            let created = now + Duration::from_millis(made / 400);
            let id = EventId::from_parts(created, BucketId(0), random.u64(..));
            let queue = QUEUE.parse().expect("a legal name");
            NewEvent {
                envelope: Arc::new(Envelope::new(id, queue, Payload::from(vec![7; 64]))),
                when: When::from(delay + Duration::from_millis(random.u64(0..1_000))),
                on_taken: Unique::Keep,
            }
        };
        (0..events / batch)
            .map(|_| (0..batch).map(|_| one(&mut random)).collect())
            .map(|mut batch: Vec<NewEvent>| {
                if delay.is_zero() {
                    batch.iter_mut().for_each(|event| event.when = When::Now);
                }
                batch
            })
            .collect()
    }
}

/// Opens a store and says how long that took, in microseconds, and how many bytes of memory more
/// there are then.
fn reopen(directory: &Path) {
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        pages.unwrap_or(0_usize) * 4_096
    };
    let (clock, before) = (SystemClock::new(), resident());
    let start = clock.mono();
    let store = open(directory);
    let took = clock.mono().since(start);
    println!("{} {}", took.as_micros(), resident() - before);
    drop(store);
}

fn key() -> BucketKey {
    BucketKey::new(QUEUE.parse().expect("a legal name"), BucketId(0))
}

fn open(directory: &Path) -> EmbeddedStore {
    EmbeddedStore::open(directory.join("duly.db")).expect("a store")
}

fn bare(directory: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(directory.join("bare.db")).expect("a file");
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
             CREATE TABLE events (row INTEGER PRIMARY KEY, due INTEGER, tries INTEGER, dead \
             INTEGER, sum INTEGER, body BLOB)",
        )
        .expect("a table");
    connection
}

fn append(connection: &rusqlite::Connection, events: usize, batch: usize, body: &[u8]) {
    let mut insert = connection
        .prepare("INSERT INTO events VALUES (?1, ?2, 0, NULL, ?3, ?4)")
        .expect("a statement");
    for first in (1..=events).step_by(batch) {
        connection.execute_batch("BEGIN").expect("a transaction");
        for row in first..first + batch {
            let row = row as i64;
            insert
                .execute(rusqlite::params![row, row * 31, i64::MAX - row, body])
                .expect("a row");
        }
        connection.execute_batch("COMMIT").expect("a commit");
    }
}
