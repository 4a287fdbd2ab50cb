//! Two builds at once on one server: a newer one writes events and records in a form that the older
//! one does not read. A child stands for the newer build, see `Role::format`.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::EventId;
use duly::records::NodeId;
use duly::store::operation::{Reply, Stats, StoreOp};
use duly::store::{RedisStore, Store};
use duly_conformance::history::{Entry, EntryKind};

use crate::nodes::{Role, Site};
use crate::servers::Redis;

/// How many events are pushed at least.
const MANY: usize = 100;

fn pushes(format: Option<u8>) -> Role {
    Role {
        pushers: 2,
        pace: Duration::from_millis(2),
        mortal: false,
        workers: 0,
        format,
        ..Role::default()
    }
}

fn handles(format: Option<u8>) -> Role {
    Role {
        format,
        ..Role::worker()
    }
}

/// What was accepted and can end without a start only if it is cancelled: it has no unique key.
fn pushed(entries: &[Entry]) -> BTreeSet<EventId> {
    let of = |is_it: fn(&EntryKind) -> bool| -> BTreeSet<EventId> {
        let entries = entries.iter().filter(|entry| is_it(&entry.what));
        entries.filter_map(|entry| entry.id).collect()
    };
    let unique = of(|what| matches!(what, EntryKind::UniqueAsked { .. }));
    let pushed = of(|what| matches!(what, EntryKind::PushAnswered { .. }));
    pushed.difference(&unique).copied().collect()
}

/// What was started, and on which nodes.
fn started(entries: &[Entry]) -> BTreeSet<(EventId, NodeId)> {
    let started = entries.iter().filter_map(|entry| match entry.what {
        EntryKind::Started { lease, .. } => Some((entry.id?, lease.node)),
        _ => None,
    });
    started.collect()
}

fn cancelled(entries: &[Entry]) -> BTreeSet<EventId> {
    let asked = entries.iter().filter_map(|entry| match entry.what {
        EntryKind::CancelAnswered { .. } => entry.id,
        _ => None,
    });
    asked.collect()
}

fn node_of(entries: &[Entry], process: u32) -> Option<NodeId> {
    entries.iter().find_map(|entry| match entry.what {
        EntryKind::Joined { node, process: its } if its == process => Some(node),
        _ => None,
    })
}

/// How many events of the site's queue stand where.
fn stats(site: &Site) -> Stats {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = RedisStore::open(&site.url).await.expect("the store opens");
        let mut all = Stats::default();
        for bucket in store.buckets().await.expect("the store answers") {
            let answer = store.apply(&bucket, StoreOp::Stats).await;
            if let Reply::Stats(stats) = answer.expect("the store answers").reply {
                all += stats;
            }
        }
        all
    })
}

/// Whether every event that was not cancelled has started.
fn all_started(entries: &[Entry]) -> bool {
    let started: BTreeSet<EventId> = started(entries).into_iter().map(|(id, _)| id).collect();
    let cancelled = cancelled(entries);
    let mut pushed = pushed(entries).into_iter();
    pushed.all(|id| started.contains(&id) || cancelled.contains(&id))
}

#[test]
fn an_older_build_leaves_what_a_newer_one_pushes_and_the_newer_handles_it() {
    let server = Redis::plain();
    let site = Site::new(server.url());
    let older = site.spawn(&handles(None));
    let older_id = older.id();
    site.wait_until("the older build is there", |entries| {
        node_of(entries, older_id).is_some()
    });
    let pusher = site.spawn(&pushes(Some(2)));
    site.wait_until("the newer build pushes", |entries| {
        pushed(entries).len() >= MANY
    });
    pusher.stop();
    let of_newer = pushed(&site.entries());
    site.wait_until("the older build has met it", |_| {
        site.said().contains("skipped events of a newer version")
    });

    // It goes on with what it reads meanwhile.
    let pusher = site.spawn(&pushes(None));
    site.wait_until("the older build handles its own", |entries| {
        let started = started(entries);
        let own = started.iter().filter(|(id, _)| !of_newer.contains(id));
        own.count() >= MANY
    });
    pusher.stop();
    let entries = site.entries();
    let touched: Vec<_> = started(&entries)
        .into_iter()
        .filter(|(id, _)| of_newer.contains(id))
        .collect();
    assert_eq!(
        touched,
        [],
        "the older build has started what it cannot read"
    );
    let now = stats(&site);
    let expected = of_newer.difference(&cancelled(&entries)).count();
    assert!(
        now.scheduled + now.ready >= expected,
        "{expected} of the newer build wait, and {now:?} is there"
    );

    let newer = site.spawn(&handles(Some(2)));
    site.wait_until("the newer build handles everything", all_started);
    let newest = node_of(&site.entries(), newer.id()).expect("it has joined");
    let by: BTreeSet<NodeId> = started(&site.entries())
        .into_iter()
        .filter(|(id, _)| of_newer.contains(id))
        .map(|(_, node)| node)
        .collect();
    assert_eq!(by, [newest].into(), "only the newer build reads them");
    site.wait_until("nothing waits any more", |_| {
        let now = stats(&site);
        now.scheduled + now.ready + now.leased == 0
    });
    older.stop();
    newer.stop();
}

#[test]
fn a_newer_build_handles_what_an_older_one_pushes() {
    let server = Redis::plain();
    let site = Site::new(server.url());
    let pusher = site.spawn(&pushes(None));
    site.wait_until("the older build pushes", |entries| {
        pushed(entries).len() >= MANY
    });
    let newer = site.spawn(&handles(Some(2)));
    site.wait_until("the newer build handles", |entries| {
        started(entries).len() >= MANY / 2
    });
    pusher.stop();
    site.wait_until("the newer build handles everything", all_started);
    site.wait_until("nothing waits any more", |_| {
        let now = stats(&site);
        now.scheduled + now.ready + now.leased == 0
    });
    newer.stop();
}
