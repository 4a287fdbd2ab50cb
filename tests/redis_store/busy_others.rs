//! How long a script keeps its server beside what others hold: thousands of nodes with a lease each that
//! has a deadline of its own, and a node with a lease of each of thousands of requests.
//!
//! `DULY_BUSY_EVENTS` takes more leases of others than 10,000.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::records::NodeId;
use duly::store::operation::{BATCH_MAX, Fetch, Holding, Reply, StartMark, StoreOp};
use duly::store::{CheckTask, Store};
use duly::time::When;
use futures_util::future::join_all;

use crate::redis_store::busy::{assert_none_is_slow, fetch_of, slow_of};
use crate::redis_store::kit::{Bare, NODE, fresh};
use crate::redis_store::meter::Meter;
use crate::servers::Redis;

/// So many nodes call at a time.
const CALLERS: usize = 64;
const SILENT: NodeId = NodeId(98);
const OTHER: NodeId = NodeId(99);
/// The first of those with a lease each.
const FIRST: u64 = 1_000;

async fn push(bare: &Bare, count: usize) {
    for from in (0..count).step_by(BATCH_MAX) {
        let numbers = from..count.min(from + BATCH_MAX);
        let events = numbers.map(|_| bare.plain(bare.new_id(), When::Now));
        let push = StoreOp::Push(events.collect());
        bare.apply(push).await.expect("a push");
    }
}

fn fetching(node: NodeId, request: u64, hold: Option<Duration>) -> StoreOp {
    StoreOp::Fetch(Fetch {
        node,
        request,
        limit: 1,
        ahead: Duration::ZERO,
        ahead_limit: 0,
        hold,
        starts: usize::MAX,
    })
}

/// Others take so many events, one in each call.
async fn others_hold(bare: &Bare, count: usize) {
    push(bare, count).await;
    let half = count as u64 / 2;
    let hold = Some(Duration::from_hours(1));
    let nodes: Vec<_> = (FIRST..FIRST + half).map(NodeId).collect();
    for some in nodes.chunks(CALLERS) {
        let fetch = |node: &NodeId| bare.apply(fetching(*node, 1, hold));
        for fetched in join_all(some.iter().map(fetch)).await {
            fetched.expect("a fetch");
        }
    }
    for request in 1..=count as u64 - half {
        let fetch = fetching(OTHER, request, None);
        bare.apply(fetch).await.expect("a fetch");
    }
}

/// Takes back what the silent node holds, and nothing of the others.
async fn reap(meter: &mut Meter<'_>, bare: &Bare) {
    let mut silent = Vec::new();
    loop {
        let limit = BATCH_MAX;
        let reap = meter
            .step(bare.apply(StoreOp::Reap { silent, limit }))
            .await;
        let Reply::Reaped(reaped) = reap.expect("a reap") else {
            panic!("a reap is answered as one");
        };
        let known: BTreeSet<_> = reaped.holders.iter().map(|(node, _)| *node).collect();
        assert!(known.contains(&OTHER) && known.contains(&NODE), "{known:?}");
        silent = reaped.holders;
        silent.retain(|(node, _)| *node == SILENT);
        if silent.is_empty() && !reaped.more {
            return;
        }
    }
}

/// What a node does, and what is done for it.
async fn every_script(meter: &mut Meter<'_>, bare: &Bare, count: usize) {
    others_hold(bare, count).await;
    push(bare, 2 * BATCH_MAX).await;
    for node in [NODE, SILENT] {
        meter.step(bare.apply(fetch_of(node, 1))).await.unwrap();
    }
    let holds = Holding::default();
    let started = StartMark::default();
    let beats = StoreOp::Heartbeat {
        node: NODE,
        holds,
        started,
    };
    meter.step(bare.apply(beats)).await.unwrap();
    reap(meter, bare).await;
    let reconcile = StoreOp::Reconcile {
        node: NODE,
        from: 0,
        through: 1,
        held: Vec::new(),
        started,
        limit: BATCH_MAX,
    };
    meter.step(bare.apply(reconcile)).await.unwrap();
    let check = bare.store.check_bucket(&bare.bucket, CheckTask::new(false));
    let found = meter.step(check).await.expect("a check");
    assert_eq!(found, []);
    let counts = bare.typed(StoreOp::stats()).await.expect("counts");
    assert_eq!([counts.ready, counts.leased], [2 * BATCH_MAX, count]);
}

async fn slow_scripts(server: &Redis) -> BTreeSet<String> {
    let count = std::env::var("DULY_BUSY_EVENTS").ok();
    let count: usize = count.and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let mut meter = Meter::new(server);
    let known_us = meter.known_us();
    let bare = Bare::open(&fresh(&server.url()).0).await;
    every_script(&mut meter, &bare, count).await;
    server.cli(&["FLUSHALL"]);
    slow_of(&meter, known_us)
}

#[tokio::test]
async fn no_script_keeps_a_server_for_long_beside_what_others_hold() {
    assert_none_is_slow(slow_scripts).await;
}
