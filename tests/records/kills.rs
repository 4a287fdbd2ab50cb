//! Nodes, stores and databases that are killed while records are on their way: in the end the
//! journal has exactly one record of every attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use duly::journal::{FoundRecords, Journal, PostgresJournal, RecorderOptions, SqliteJournal};
use duly::prelude::*;
use duly::records::{Cursor, NodeId, Numbered, Query};
use duly::store::{EmbeddedStore, Outbox, RedisStore, Store};
use duly_conformance::history::{EntryKind, Report};

use crate::nodes::{Memory, Node, Role, Site, account, starts, starts_of};
use crate::records::deaf::Deaf;
use crate::servers::{Aof, Postgres, PostgresOptions, Redis, RedisOptions};

/// How many kills each case has when nobody says otherwise.
fn kills() -> u64 {
    let said = env::var("DULY_RECORD_KILLS").ok();
    said.and_then(|it| it.parse().ok()).unwrap_or(4)
}

/// A node that pushes some hundred events a second and handles.
fn busy(seed: u64) -> Role {
    Role {
        seed,
        pushers: 2,
        pace: Duration::from_millis(4),
        mortal: false,
        ..Role::default()
    }
}

/// Time under load: what is waited for is that the kill meets any moment.
fn let_it_run(random: &mut fastrand::Rng) {
    thread::sleep(Duration::from_micros(random.u64(20_000..500_000)));
}

fn wait_for_more(site: &Site) {
    let from = site.entries().len();
    site.wait_until("handlers start", |entries| {
        starts(&entries[from..]).count() >= 50
    });
}

/// The numbers by which this run chooses its moments.
fn random(case: &str) -> fastrand::Rng {
    let seed = fastrand::u64(..1 << 32);
    println!("{case}: seed {seed}");
    fastrand::Rng::with_seed(seed)
}

#[test]
fn a_node_on_the_embedded_store_killed_at_any_moment_has_one_record_of_each_attempt() {
    let case = "nodes on a file killed";
    let mut random = random(case);
    let site = Site::embedded();
    for kill in 0..kills() {
        let node = site.spawn(&Role {
            seed: random.u64(..1 << 32),
            mortal: kill % 2 == 0,
            ..Role::default()
        });
        // While it opens its files, or works.
        let_it_run(&mut random);
        node.kill();
    }
    let report = account(&site, Memory::Keeps);
    let path = site.url.strip_prefix("sqlite:").expect("it is a file");
    let store = EmbeddedStore::open(path).expect("the store opens");
    let table = store.records().expect("it keeps its records");
    let records = runtime().block_on(all(|query| {
        let page = Arc::clone(&table).page(query);
        async { page.await.expect("it answers") }
    }));
    compare(case, &site, &report, &records);
}

/// Three nodes on one Redis, and one of them or the server is killed again and again.
fn on_redis(case: &str, journal: &str, mut fault: impl FnMut(&mut fastrand::Rng)) -> Site {
    let mut random = random(case);
    let mut redis = Redis::start(RedisOptions {
        aof: Aof::Always,
        tcp: true,
        ..RedisOptions::default()
    });
    let mut site = Site::new(redis.url());
    site.journal = Some(match journal {
        "" => format!("sqlite:{}", site.folder().join("records").display()),
        url => url.to_owned(),
    });
    let mut next = random.u64(..1 << 30);
    let mut spawn = |site: &Site| {
        next += 1;
        site.spawn(&busy(next))
    };
    let mut nodes: Vec<_> = (0..3).map(|_| spawn(&site)).collect();
    wait_for_more(&site);
    for kill in 0..kills() {
        let_it_run(&mut random);
        match kill % 3 {
            2 => {
                // A node that has not opened its store yet would end with the server.
                site.wait_until("each node handles", |entries| {
                    let handles = |node: &Node| starts_of(entries, node.id()) > 0;
                    nodes.iter().all(handles)
                });
                redis.kill();
                let_it_run(&mut random);
                redis.restart();
            }
            _ => {
                nodes.swap_remove(random.usize(..nodes.len())).kill();
                nodes.push(spawn(&site));
            }
        }
        fault(&mut random);
    }
    wait_for_more(&site);
    let url = site.journal.clone().expect("it was just given");
    finish(case, &site, nodes, || open(&url));
    site
}

fn open(url: &str) -> duly::Result<Arc<dyn Journal>> {
    match url.strip_prefix("sqlite:") {
        Some(path) => Ok(Arc::new(SqliteJournal::open(path)?)),
        None => Ok(Arc::new(PostgresJournal::new(url)?)),
    }
}

#[test]
fn nodes_on_redis_and_redis_itself_killed_leave_one_record_of_each_attempt_in_a_file() {
    on_redis("nodes and redis killed, records in a file", "", |_| {});
}

#[test]
fn nodes_redis_and_the_database_killed_leave_one_record_of_each_attempt() {
    let mut database = Postgres::start(PostgresOptions::default());
    let url = database.url();
    let case = "nodes, redis and the database killed";
    on_redis(case, &url, |random| {
        database.kill();
        let_it_run(random);
        database.restart();
    });
}

/// Lets nodes finish, works off what is left, and compares the journal with what was seen.
fn finish(
    case: &str,
    site: &Site,
    nodes: Vec<Node>,
    open: impl FnOnce() -> duly::Result<Arc<dyn Journal>>,
) {
    for node in nodes {
        node.stop();
    }
    let report = account(site, Memory::Keeps);
    let journal = runtime().block_on(async {
        let journal = open().expect("the journal opens");
        let store = RedisStore::open(&site.url).await;
        let store: Arc<dyn Store> = Arc::new(store.expect("the store opens"));
        carry_the_rest(&store, &journal).await;
        let page = |query| {
            let page = journal.page(query);
            async { page.await.expect("it answers") }
        };
        let all = all(page).await;
        journal.close().await.expect("it closes");
        store.close().await.expect("it closes");
        all
    });
    compare(case, site, &report, &journal);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// A bus that does nothing else records what waits.
#[allow(clippy::disallowed_methods)] // real time: this is about real processes
async fn carry_the_rest(store: &Arc<dyn Store>, journal: &Arc<dyn Journal>) {
    let builder = Bus::builder()
        .only_registered()
        .publish_only()
        .settings(Default::default())
        .shared_store(Deaf::to(store))
        .shared_journal(Arc::clone(journal))
        .recorder_options(RecorderOptions::default());
    let bus = builder.start().await.expect("it starts");
    let began = std::time::Instant::now();
    loop {
        let mut waiting = 0;
        for outbox in store.outboxes().await.expect("it answers") {
            waiting += waits_in(&**store, &outbox).await;
        }
        if waiting == 0 {
            break;
        }
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{waiting} wait for ever"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bus.shutdown(Duration::from_secs(1)).await.expect("a stop");
}

async fn waits_in(store: &dyn Store, outbox: &Outbox) -> u64 {
    let page = store.read_outbox(outbox, 0, 0).await.expect("it answers");
    page.next - page.first
}

async fn all<F: Future<Output = FoundRecords>>(page: impl Fn(Query) -> F) -> Vec<Numbered> {
    let mut all: Vec<Numbered> = Vec::new();
    let mut after: Option<Cursor> = None;
    loop {
        let limit = Some(Query::LIMIT_MAX);
        let query = Query {
            after,
            limit,
            ..Query::default()
        };
        let found = page(query).await;
        all.extend(found.records);
        after = found.next;
        if after.is_none() {
            return all;
        }
    }
}

/// Each attempt that was seen has one record, and no attempt has two.
fn compare(case: &str, site: &Site, report: &Report, journal: &[Numbered]) {
    let ends_an_attempt = |outcome: Outcome| {
        matches!(
            outcome,
            Outcome::Acked
                | Outcome::Retried
                | Outcome::Buried
                | Outcome::Discarded
                | Outcome::LeaseLost
        )
    };
    let (mut attempts, mut twice) = (BTreeMap::new(), BTreeSet::new());
    for (number, record) in journal {
        if !ends_an_attempt(record.outcome) {
            continue;
        }
        let attempt = (record.id, record.attempt);
        if let Some(other) = attempts.insert(attempt, (number, record)) {
            twice.insert(format!("{other:?} and {number} {record:?}"));
        }
    }
    let entries = site.entries();
    let started = entries.iter().filter_map(|entry| match entry.what {
        EntryKind::Started { attempt, lease, .. } => Some((entry.id?, attempt, lease.node)),
        _ => None,
    });
    let started: BTreeSet<(EventId, u16, NodeId)> = started.collect();
    let is_missing =
        |(id, attempt, _): &&(EventId, u16, NodeId)| !attempts.contains_key(&(*id, *attempt));
    let missing: Vec<_> = started.iter().filter(is_missing).collect();
    let recorded = |entry: &&duly_conformance::history::Entry| {
        matches!(entry.what, EntryKind::Recorded { .. })
    };
    let told = entries.iter().filter(recorded).count();
    println!(
        "{case}: {} records of {} attempts, {} starts seen, {} leases lost, {} missing, {} twice",
        journal.len(),
        attempts.len(),
        started.len(),
        report.leases_lost,
        missing.len(),
        twice.len(),
    );
    let said = fs::read_to_string(site.folder().join("err")).unwrap_or_default();
    assert!(
        missing.is_empty(),
        "no record of {missing:?}; nodes said {said}"
    );
    assert!(twice.is_empty(), "two records of one attempt: {twice:?}");
    assert!(!said.contains("records are lost"), "{said}");
    assert_eq!(
        told,
        journal.len(),
        "what the bus reads is what the journal has"
    );
    assert!(report.starts > 0 && !journal.is_empty(), "nothing happened");
}
