//! The account: what the log, the store and the records say of each event must fit together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duly::prelude::*;
use duly::records::Record;
use duly::store::RedisStore;
use duly_conformance::history::{ClientChecker, EntryKind, PushResult, Report};

use super::child::{self, Role};
use super::log::Log;
use super::process::Site;

/// How long working off what was left may take.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// What the store promised to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Everything that it answered: whatever is missing fails the account.
    Keeps,
    /// It may have forgotten its last moments: what is missing is counted.
    MayForget,
}

/// Works off the store of a site, completes its history with the records and the last states, and
/// accounts for every event.
///
/// Nothing may be early, whatever the store forgets; nor may a push that was refused have happened.
pub(crate) fn account(site: &Site, memory: Memory) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let log = Arc::new(Log::open(site.folder()));
        let worker = Role {
            journal: site.journal.clone(),
            ..Role::worker()
        };
        let bus = child::bus(&site.url, &log, &worker).await;
        let bus = bus.expect("the store opens");
        push_again(&bus, &log, &read(site)).await;
        drain(&bus).await;
        testify(&bus, &log, &read(site)).await;
        bus.shutdown(Duration::from_secs(5)).await.expect("a stop");
        audit(&site.url).await;
    });
    let account = match memory {
        Memory::Keeps => read(site),
        Memory::MayForget => read(site).allow_lost_tail(),
    };
    let report = account.close();
    let history = site.folder().join("log");
    assert!(report.broken.is_empty(), "{report}{}", history.display());
    report
}

fn read(site: &Site) -> ClientChecker {
    let mut account = ClientChecker::new();
    site.entries().iter().for_each(|entry| account.read(entry));
    account
}

/// A Redis store looks at itself: each event in exactly one place, every counter right.
async fn audit(url: &str) {
    if url.starts_with("redis") {
        let store = RedisStore::open(url).await.expect("the store opens");
        let wrong = store.audit_whole().await.expect("the store answers");
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Repeats the pushes that were never answered, as their pushers would: that is safe.
async fn push_again(bus: &Bus, log: &Log, account: &ClientChecker) {
    let queue: Queue<u64> = bus.queue_named("work").expect("a legal name");
    for (id, payload, _) in account.open() {
        let receipt = queue.event(payload).id(id).push().await;
        let due = Some(receipt.expect("a repeat is accepted").due());
        let verdict = PushResult::Accepted;
        let what = EntryKind::PushAnswered {
            verdict,
            payload,
            due,
        };
        log.of(id, what);
    }
}

/// Waits until everything is over or dead.
#[allow(clippy::disallowed_methods)] // real time: this is about real processes
async fn drain(bus: &Bus) {
    let began = Instant::now();
    loop {
        let stats = bus.stats("work").await;
        if let Ok(stats) = &stats
            && stats.scheduled + stats.ready + stats.leased == 0
        {
            return;
        }
        assert!(began.elapsed() < DRAIN_MAX, "it hangs: {stats:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What the store knows in the end: every record, and where each event is.
async fn testify(bus: &Bus, log: &Log, account: &ClientChecker) {
    for record in records(bus).await {
        let what = EntryKind::Recorded {
            node: record.node,
            attempt: record.attempt,
            outcome: record.outcome,
            due: record.due,
        };
        log.at(record.stages.finished_us, record.id, what);
    }
    let queue: Queue<u64> = bus.queue_named("work").expect("a legal name");
    for id in account.ids() {
        let found = patiently(|| queue.get(id)).await;
        let state = found.map(|snapshot| snapshot.state);
        log.of(id, EntryKind::LastState { state });
    }
}

/// Repeats a question that a server cut off: one that comes back as a replica closes its
/// connections.
#[allow(clippy::disallowed_methods)] // real time: this is about real processes
async fn patiently<T, F>(ask: impl Fn() -> F) -> T
where
    F: Future<Output = duly::Result<T>>,
{
    let began = Instant::now();
    loop {
        match ask().await {
            Ok(reply) => return reply,
            Err(error) => assert!(began.elapsed() < DRAIN_MAX, "no reply: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn records(bus: &Bus) -> Vec<Record> {
    let (mut records, mut after) = (Vec::new(), None);
    loop {
        let page = patiently(|| bus.records().after(after).limit(1_000).page()).await;
        records.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return records,
        }
    }
}
