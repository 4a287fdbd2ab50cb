//! Promises of queries and notifications: get, stats, forecast, watcher.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, World, bury, ms, retry, secs};
use duly::ErrorKind;
use duly::event::{BucketKey, State};
use duly::store::Watcher;
use duly::store::operation::{AttemptOutcome, StartMark, Stats, StoreOp};
use duly::time::Timestamp;

pub async fn get_tells_where_an_event_stands(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let draft = world.event();
    let id = world.add(draft.clone()).await;
    let delivery = world.take(A).await;
    let found = world.get(id).await.expect("it is leased");
    assert_eq!(
        (found.state, found.holder, found.tries),
        (State::Leased, Some(A), 0)
    );
    assert_eq!(found.body.as_deref(), Some(&*draft.0.envelope));
    assert!(world.settle(A, &delivery, retry(secs(5))).await);
    let found = world.get(id).await.expect("it waits");
    assert_eq!(
        (found.state, found.holder, found.tries),
        (State::Scheduled, None, 1)
    );
    let _ = world.cancel(id).await;
    let found = world.get(id).await.expect("it is remembered");
    assert_eq!((found.state, found.body), (State::Cancelled, None));
}

pub async fn a_snapshot_tells_since_when_and_until_when(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().when(secs(5))).await;
    let look = async || {
        let found = world.get(id).await.expect("it is there");
        (found.since, found.until)
    };
    // A store of many nodes may not know since when an event is in flight.
    let is_known = |since: &Option<Timestamp>| since.is_some() || !world.store().is_shared();
    assert_eq!(look().await, (None, None), "it is scheduled");
    world.advance(secs(7));
    world.move_due().await;
    let moved = Some(world.now());
    world.advance(secs(1));
    let found = look().await;
    assert_eq!(
        found,
        (moved.filter(|_| is_known(&found.0)), None),
        "it is ready"
    );
    let mut fetch = world.fetching(A, 1);
    fetch.hold = Some(secs(30));
    let delivery = world.fetch_by(&fetch).await.remove(0);
    let (fetched, until) = (Some(world.now()), Some(world.now() + secs(30)));
    world.advance(secs(1));
    let found = look().await;
    let since = fetched.filter(|_| is_known(&found.0));
    assert_eq!(found, (since, until), "it has a deadline");
    assert!(world.settle(A, &delivery, AttemptOutcome::Release).await);
    let delivery = world.take(A).await;
    let fetched = Some(world.now());
    world.advance(secs(1));
    let found = look().await;
    let since = fetched.filter(|_| is_known(&found.0));
    assert_eq!(found, (since, None), "it has a heartbeat");
    assert!(world.settle(A, &delivery, bury()).await);
    let died = Some(world.now());
    world.advance(secs(1));
    assert_eq!(look().await, (died, None), "it is dead");
    world.drop_dead(&[id]).await;
    assert_eq!(look().await, (None, None), "it is over");
}

pub async fn stats_count_every_event_once(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    assert_eq!(world.stats().await, Stats::default());
    world.dead(world.event()).await;
    world.add(world.event()).await;
    world.take(A).await;
    for delay in [0, 0, 5, 6, 7] {
        world.add(world.event().when(secs(delay))).await;
    }
    let cancelled = world.add(world.event()).await;
    let _ = world.cancel(cancelled).await;
    let expected = Stats {
        scheduled: 3,
        ready: 2,
        leased: 1,
        dead: 1,
        oldest_ready: world.stats().await.oldest_ready,
    };
    assert_eq!(world.stats().await, expected);
}

pub async fn stats_count_what_is_due_as_ready_before_it_is_moved(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for delay in [1, 2, 3] {
        world.add(world.event().when(secs(delay))).await;
    }
    let counts = async || {
        let stats = world.stats().await;
        (stats.scheduled, stats.ready)
    };
    assert_eq!(counts().await, (3, 0));
    world.advance(secs(2));
    assert_eq!(counts().await, (1, 2));
    world.move_due().await;
    assert_eq!(counts().await, (1, 2));
}

pub async fn stats_tell_since_when_the_next_event_is_ready(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let oldest = async || world.stats().await.oldest_ready;
    let waits = world.add(world.event().when(secs(2))).await;
    assert_eq!(oldest().await, None, "none is ready");
    let due = world.now() + secs(2);
    world.advance(secs(3));
    assert_eq!(oldest().await, Some(due), "nobody has moved it");
    world.move_due().await;
    let moved = world.now();
    world.advance(secs(1));
    let second = world.add(world.event()).await;
    let pushed = world.now();
    world.advance(secs(1));
    assert_eq!(
        oldest().await,
        Some(moved),
        "it counts from when it was moved"
    );
    let _ = world.cancel(waits).await;
    assert_eq!(
        oldest().await,
        Some(pushed),
        "what has left the list is passed over"
    );
    let _ = world.cancel(second).await;
    assert_eq!(oldest().await, None);
    world.add(world.event()).await;
    world.take(A).await;
    assert_eq!(oldest().await, None, "a leased event waits for nobody");
    let put_off = world.add(world.event()).await;
    let _ = world.reschedule(put_off, secs(60)).await;
    assert_eq!(oldest().await, None, "what waits again is not ready");
    // Nor is it where it has left its place between two others.
    world.add(world.event()).await;
    let put_off = world.add(world.event()).await;
    world.advance(secs(1));
    world.add(world.event()).await;
    let pushed = world.now();
    let _ = world.reschedule(put_off, secs(60)).await;
    let first = world.fetch_by(&world.fetching(A, 1)).await;
    assert_eq!(first.len(), 1);
    assert_eq!(oldest().await, Some(pushed));
}

pub async fn the_forecast_counts_what_falls_due_within_each_span(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    for delay in [1_000, 2_000, 59_999, 60_000, 60_001, 3_600_000, 90_000_000] {
        world.add(world.event().when(ms(delay))).await;
    }
    world.add(world.event()).await;
    let spans = [secs(0), secs(60), secs(300), secs(3_600), Duration::MAX];
    assert_eq!(world.forecast(&spans).await, [0, 4, 5, 6, 7]);
    world.advance(secs(2));
    assert_eq!(
        world.forecast(&spans[..2]).await,
        [2, 5],
        "what is due and not moved counts"
    );
    world.move_due().await;
    assert_eq!(world.forecast(&spans[..2]).await, [0, 3]);
}

pub async fn each_of_many_spans_of_a_forecast_is_counted_exactly(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    // Alone, close together, many at one instant, and none for long.
    let mut delays = vec![1_u64, 700, 701, 702, 5_000];
    delays.extend([40_000; 30]);
    delays.extend((0..20).map(|number| 50_000 + 97 * number));
    delays.extend([399_999, 400_000, 7_000_000]);
    let events = delays.iter().map(|delay| world.event().when(ms(*delay)));
    world.push_all(&events.collect::<Vec<_>>()).await;
    for step in [1, 97, 1_000, 20_000] {
        let spans: Vec<Duration> = (0..400).map(|number| ms(number * step)).collect();
        let within = |span: &Duration| delays.iter().filter(|delay| ms(**delay) <= *span).count();
        let right: Vec<usize> = spans.iter().map(within).collect();
        assert_eq!(world.forecast(&spans).await, right, "by {step} ms");
    }
    assert_eq!(world.forecast(&[]).await, [0; 0]);
    assert_eq!(world.forecast(&[ms(700)]).await, [2]);
    let within = vec![secs(2), secs(1)];
    let error = world.try_op(StoreOp::forecast(within)).await;
    let error = error.expect_err("out of order");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

pub async fn a_list_beyond_the_bound_is_refused(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    let delivery = world.take(A).await;
    let settlement = world.ended(&delivery, AttemptOutcome::Ack);
    for op in [
        StoreOp::Settle {
            node: A,
            settlements: vec![settlement; 1_001],
            started: StartMark::default(),
        },
        StoreOp::Extend {
            node: A,
            leases: vec![(delivery.id, delivery.request); 1_001],
            hold: secs(1),
        },
        StoreOp::Reconcile {
            node: A,
            from: 0,
            through: delivery.request,
            held: vec![(delivery.request, vec![delivery.id; 1_001])],
            limit: 1,
            started: StartMark::default(),
        },
        StoreOp::Reap {
            silent: vec![(A, 1); 1_001],
            limit: 1,
        },
        StoreOp::Revive {
            ids: vec![delivery.id; 1_001],
            by: None,
        },
        StoreOp::Drop {
            ids: vec![delivery.id; 1_001],
            by: None,
        },
        StoreOp::Forecast {
            within: vec![secs(1); 1_001],
        },
    ] {
        assert_eq!(world.refused(op).await, ErrorKind::Invalid);
    }
    assert!(
        world.settle(A, &delivery, AttemptOutcome::Ack).await,
        "nothing was changed"
    );
}

#[derive(Default)]
struct PushResult(AtomicUsize);

impl Watcher for PushResult {
    fn earlier(&self, bucket: &BucketKey) {
        assert_eq!(bucket.bucket.0, 3);
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn called(&self, bucket: &BucketKey) {
        panic!("unexpected call for {bucket}");
    }
}

impl PushResult {
    /// Returns whether it was notified since the last call.
    fn take(&self) -> bool {
        self.0.swap(0, Ordering::SeqCst) > 0
    }
}

pub async fn a_watcher_is_told_of_work_that_comes_sooner(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let calls = Arc::new(PushResult::default());
    let watcher: Arc<dyn Watcher> = Arc::clone(&calls) as _;
    let watched = world.store().watch(Arc::downgrade(&watcher));
    watched.expect("there is room");
    let first = world.add(world.event().when(secs(60))).await;
    assert!(calls.take(), "the first due time");
    world.add(world.event().when(secs(30))).await;
    assert!(calls.take(), "an earlier one");
    let _ = world.reschedule(first, secs(10)).await;
    assert!(calls.take(), "an earlier one by hand");
    world.add(world.event()).await;
    assert!(calls.take(), "ready where nothing was");
    let delivery = world.take(A).await;
    calls.take();
    assert!(world.settle(A, &delivery, AttemptOutcome::Release).await);
    assert!(calls.take(), "ready again by release");
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, retry(secs(5))).await);
    assert!(calls.take(), "a retry that is due sooner");
    world.advance(secs(5));
    world.take(A).await;
    calls.take();
    world.reap_node(A).await;
    assert!(calls.take(), "ready again by reap");
}

pub async fn a_watcher_is_left_alone_otherwise(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let calls = Arc::new(PushResult::default());
    let watcher: Arc<dyn Watcher> = Arc::clone(&calls) as _;
    let watched = world.store().watch(Arc::downgrade(&watcher));
    watched.expect("there is room");
    let first = world.add(world.event().when(secs(10))).await;
    assert!(calls.take());
    world.add(world.event().when(secs(20))).await;
    assert!(!calls.take(), "a later one");
    let _ = world.reschedule(first, secs(15)).await;
    world.stats().await;
    let _ = world.cancel(first).await;
    assert!(!calls.take(), "nothing came sooner");
    world.advance(secs(20));
    world.move_due().await;
    // A shared store requests one more poll when it subscribes.
    let asks_once = world.store().is_shared();
    assert!(asks_once || !calls.take(), "the mover knows what it did");
}
