//! Many events: they are read by a thread of its own, and the log stays short.

use std::sync::Arc;
use std::time::Duration;

use duly::EventId;
use duly::event::{BucketId, BucketKey, State};
use duly::store::operation::{Reply, StoreOp};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::{Clock, When};
use futures_util::FutureExt;

use crate::embedded::damage::{damaged, meddle};
use crate::embedded::harness::*;

/// From 10,000 events on a thread reads them.
const MANY: u64 = 12_000;

/// How long after the start the `n`th event is due: in another order than that of their numbers,
/// several at one time.
fn delay(n: u64) -> Duration {
    Duration::from_millis(1 + n * 7_919 % 4_001)
}

#[test]
fn many_events_are_restored_in_the_order_of_their_due_times() {
    let place = Place::new();
    let store = place.open();
    for first in (0..MANY).step_by(1_000) {
        let batch = first..first + 1_000;
        let batch = batch.map(|n| event(n, When::After(delay(n)), 3)).collect();
        ask(&store, StoreOp::Push(batch)).expect("a push");
    }
    drop(store);
    meddle(&place, "UPDATE events SET due = due + 1 WHERE row = 6000");
    let store = place.open();
    store.check().expect("a sound index");
    assert_eq!(damaged(&store).len(), 1);
    assert_eq!(stats(&store).scheduled as u64, MANY - 1);
    place.clock.advance(Duration::from_secs(5));
    let mut right: Vec<_> = (0..MANY).filter(|n| *n != 5_999).collect();
    right.sort_by_key(|n| (delay(*n), id(*n)));
    let mut fetched = Vec::new();
    for request in 1.. {
        let deliveries = fetch(&store, request);
        if deliveries.is_empty() {
            break;
        }
        fetched.extend(deliveries.iter().map(|delivery| delivery.id));
    }
    let right: Vec<_> = right.into_iter().map(id).collect();
    assert!(fetched == right, "another order, or others");
}

#[test]
fn events_of_several_buckets_are_restored() {
    let place = Place::new();
    let of = |bucket| BucketKey::new(key().queue, BucketId(bucket));
    let ask_of = |store: &EmbeddedStore, bucket, op| {
        let reply = store.apply(&of(bucket), op).now_or_never();
        let reply = reply.expect("an inline store replies at once");
        reply.expect("it is done").reply
    };
    let store = place.open();
    for bucket in 0..8 {
        let events = (0..9).map(|n| {
            let mut event = event(n, When::After(delay(n)), 3);
            Arc::make_mut(&mut event.envelope).id = EventId::from_parts(START, BucketId(bucket), n);
            event
        });
        ask_of(&store, bucket, StoreOp::Push(events.collect()));
    }
    drop(store);
    let store = place.open();
    store.check().expect("a sound index");
    for bucket in 0..8 {
        match ask_of(&store, bucket, StoreOp::Stats) {
            Reply::Stats(stats) => assert_eq!(stats.scheduled, 9, "{bucket}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_log_stays_short_while_pushes_go_on_without_a_pause() {
    let place = Place::new();
    let clock = Arc::clone(&place.clock) as Arc<dyn Clock>;
    // The log is bounded by half of it.
    let options = EmbeddedOptions::new().clock(clock).reserve_bytes(8 << 20);
    let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    let log = place.directory.path().join("duly.db-wal");
    let len = |path| std::fs::metadata(path).expect("a file").len();
    let mut longest = 0;
    for first in (0..60_000).step_by(1_000) {
        let batch = first..first + 1_000;
        let batch = batch.map(|n| event(n, When::After(delay(n)), 3)).collect();
        let pushed = store.apply(&key(), StoreOp::Push(batch));
        pushed.await.expect("a push");
        longest = longest.max(len(&log));
    }
    assert!(longest < 5 << 20, "{longest} bytes of log");
    let (file, written) = (len(&place.path()), 60_000 * 100);
    assert!(file > written / 2, "{file} bytes are in the file");
    store.close().await.expect("a close");
    drop(store);
    let store = place.open();
    store.check().expect("a sound index");
    assert_eq!(stats(&store).scheduled, 60_000);
    let last = get(&store, 59_999).expect("it is there");
    assert_eq!(last.state, State::Scheduled);
}
