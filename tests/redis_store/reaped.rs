//! What one reap does at most, whatever waits for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duly::ErrorKind;
use duly::event::UNIQUE_HEADER;
use duly::records::NodeId;
use duly::store::RedisOptions;
use duly::store::operation::{BATCH_MAX, Fetch, Holding, StartMark, StoreOp};
use duly::testing::ManualClock;
use duly::time::When;

use crate::redis_store::kit::{Bare, NODE, fresh};
use crate::servers::Redis;

fn fetch(node: NodeId, limit: usize, hold: Option<Duration>) -> Fetch {
    Fetch {
        node,
        request: 1,
        limit,
        ahead: Duration::ZERO,
        ahead_limit: 0,
        hold,
        starts: usize::MAX,
    }
}

/// So many nodes hold something: a reap tells of some, and in the next minutes of the others.
#[tokio::test]
async fn a_reap_tells_of_a_bounded_number_of_nodes_and_in_time_of_all() {
    const NODES: usize = 1_200;
    let server = Redis::plain();
    let clock = Arc::new(ManualClock::new());
    let options = RedisOptions::new().clock(clock.clone());
    let bare = Bare::open_with(&fresh(&server.url()).0, options).await;
    for from in (0..NODES).step_by(BATCH_MAX) {
        let many = from..NODES.min(from + BATCH_MAX);
        let events = many.map(|_| bare.plain(bare.new_id(), When::Now));
        let push = StoreOp::Push(events.collect());
        bare.apply(push).await.expect("a push");
    }
    let nodes: BTreeSet<_> = { 0..NODES as u64 }
        .map(|number| NodeId(number * (u64::MAX / NODES as u64)))
        .collect();
    for node in &nodes {
        let took = bare.typed(StoreOp::fetch(fetch(*node, 1, None))).await;
        assert_eq!(took.expect("a fetch").deliveries.len(), 1);
    }
    let mut seen = BTreeSet::new();
    for minute in 0.. {
        assert!(minute < 10, "{} of {NODES} are told", seen.len());
        let mut again = None;
        for _ in 0..2 {
            let reaped = bare.typed(StoreOp::reap(Vec::new(), 1)).await;
            let holders = reaped.expect("a reap").holders;
            assert_eq!(holders.len(), BATCH_MAX);
            seen.extend(holders.iter().map(|(node, _)| *node));
            let before = again.replace(holders.clone());
            assert!(
                before.is_none_or(|it| it == holders),
                "who watches sees the same"
            );
            clock.advance(Duration::from_secs(3));
        }
        if seen == nodes {
            break;
        }
        clock.advance(Duration::from_secs(54));
    }
}

/// Unique keys that are free again wait until there is little to take back, and go bit by bit.
#[tokio::test]
async fn a_reap_that_takes_many_leases_back_does_nothing_else() {
    const KEYS: usize = 600;
    const FREED: usize = 250;
    const LEASES: usize = 300;
    let server = Redis::plain();
    let clock = Arc::new(ManualClock::new());
    let options = RedisOptions::new().clock(clock.clone());
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open_with(&url, options).await;
    let events = { 0..KEYS }.map(|number| {
        let mut event = bare.plain(bare.new_id(), When::Now);
        let envelope = Arc::make_mut(&mut event.envelope);
        envelope.unique = Some(format!("unique {number}"));
        envelope.headers = vec![(UNIQUE_HEADER.to_owned(), "1000".to_owned())];
        event
    });
    bare.apply(StoreOp::Push(events.collect()))
        .await
        .expect("a push");
    let held = bare.fetch(1, KEYS).await.expect("a fetch");
    bare.ack(1, &held).await.expect("acks");
    let events = { 0..LEASES }.map(|_| bare.plain(bare.new_id(), When::Now));
    bare.apply(StoreOp::Push(events.collect()))
        .await
        .expect("a push");
    let hold = Some(Duration::from_secs(1));
    let op = StoreOp::fetch(Fetch {
        request: 2,
        ..fetch(NODE, LEASES, hold)
    });
    let leased = bare.typed(op).await.expect("a fetch").deliveries;
    assert_eq!(leased.len(), LEASES);
    clock.advance(Duration::from_secs(2));

    let key = format!("{prefix}:{{letters:0}}:holds");
    for (taken, left) in [
        (LEASES, KEYS),
        (0, KEYS - FREED),
        (0, KEYS - 2 * FREED),
        (0, 0),
    ] {
        let reaped = bare.typed(StoreOp::reap(Vec::new(), BATCH_MAX)).await;
        assert_eq!(reaped.expect("a reap").ready, taken);
        assert_eq!(server.cli(&["ZCARD", &key]), left.to_string());
    }
}

/// Its machine was stopped, its clocks as well. It fetches before its heartbeat, or after it, and learns from
/// the first reply that its leases are others'; one whose record is gone only from what the store knows of it.
#[tokio::test]
async fn a_node_that_was_reaped_learns_of_it_also_when_it_was_forgotten() {
    const OTHER: NodeId = NodeId(8);
    let server = Redis::plain();
    for is_forgotten in [false, true] {
        for fetches_first in [false, true] {
            let clock = Arc::new(ManualClock::new());
            let options = RedisOptions::new().clock(clock.clone());
            let bare = Bare::open_with(&fresh(&server.url()).0, options).await;
            let push = async || {
                let event = bare.plain(bare.new_id(), When::Now);
                let pushed = bare.apply(StoreOp::Push(vec![event])).await;
                pushed.expect("a push");
            };
            push().await;
            let held = bare.fetch(1, 1).await.expect("a fetch");
            let reap = async |silent| bare.typed(StoreOp::reap(silent, 9)).await.expect("a reap");
            let holders = reap(Vec::new()).await.holders;
            assert_eq!(reap(holders).await.ready, 1);
            let taken = bare.typed(StoreOp::fetch(fetch(OTHER, 1, None))).await;
            let taken = taken.expect("a fetch").deliveries;
            assert_eq!([taken[0].id], *held, "it runs elsewhere");
            if is_forgotten {
                clock.advance(Duration::from_hours(48));
                reap(Vec::new()).await;
            }
            let beats = async || {
                let holds = Holding { leases: 1, last: 1 };
                let beat = StoreOp::heartbeat(NODE, holds, StartMark::default());
                bare.typed(beat).await.expect("a heartbeat").stands
            };
            if !fetches_first {
                assert!(!beats().await, "forgotten: {is_forgotten}");
            }
            push().await;
            let again = Fetch {
                request: 2,
                ..fetch(NODE, 9, None)
            };
            match bare.typed(StoreOp::fetch(again)).await {
                Ok(fetched) => assert_eq!((is_forgotten, fetched.holding.last), (true, 0)),
                Err(error) => {
                    assert_eq!((is_forgotten, error.kind()), (false, ErrorKind::LeaseLost));
                }
            }
        }
    }
}
