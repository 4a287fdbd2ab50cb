//! Lateness by stage: the sums, and where the time is said to have gone.

use std::time::Duration;

use duly::BusBuilder;
use duly::metrics::Stages;
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::testing::{Probe, TestBus};
use proptest::prelude::*;

use crate::faulty::{Fault, Faulty};
use crate::metrics::seen::Seen;
use crate::world::{ORDERS, World, ms, secs};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_stages_add_up_to_the_total_whatever_the_clocks_say(
        times in prop::array::uniform4(prop_oneof![0..50_u64, 0..2_000_000_u64, any::<u64>()]),
    ) {
        let [due, moved, fetched, started] = times;
        let stages = Stages::of(due, moved, fetched, started);
        let sum = u128::from(stages.move_us) + u128::from(stages.fetch_us) + u128::from(stages.start_us);
        prop_assert_eq!(sum, u128::from(started.saturating_sub(due)));
        prop_assert_eq!(u128::from(stages.total_us()), sum);
    }

    #[test]
    fn what_was_done_ahead_of_the_due_time_took_none(
        due in 1_000_000..2_000_000_u64,
        ahead in 0..1_000_000_u64,
        more in 0..1_000_u64,
        late in 0..1_000_000_u64,
    ) {
        let moved = due - ahead;
        let stages = Stages::of(due, moved, (moved + more).min(due), due + late);
        prop_assert_eq!((stages.move_us, stages.fetch_us, stages.start_us), (0, 0, late));
    }

    #[test]
    fn steps_in_their_order_took_what_lies_between_them(
        due in 0..u64::MAX / 4,
        spans in prop::array::uniform3(0..1_000_000_000_u64),
    ) {
        let moved = due + spans[0];
        let fetched = moved + spans[1];
        let stages = Stages::of(due, moved, fetched, fetched + spans[2]);
        prop_assert_eq!([stages.move_us, stages.fetch_us, stages.start_us], spans);
    }
}

/// The lateness of each attempt by stage, in milliseconds: `[move, fetch, start, total]`.
fn lateness(seen: &Seen) -> Vec<[u64; 4]> {
    let stage = |stage| {
        seen.values(&format!(
            "duly_lateness_seconds{{queue=orders,stage={stage}}}"
        ))
    };
    let [moving, fetching, starting, total] = ["move", "fetch", "start", "total"].map(stage);
    let ms = |seconds: f64| (seconds * 1e3).round() as u64;
    (0..total.len())
        .map(|at| [moving[at], fetching[at], starting[at], total[at]].map(ms))
        .collect()
}

/// A bus whose store is slow at some operations, what its handler takes, and what it is told.
struct Tried {
    bus: TestBus,
    queue: Queue<u64>,
    seen: Seen,
    _guard: metrics::LocalRecorderGuard<'static>,
}

async fn slow_at(
    is_slow: fn(&StoreOp) -> bool,
    probe: Probe<u64>,
    choose: impl FnOnce(BusBuilder) -> BusBuilder,
) -> Tried {
    let (seen, guard) = Seen::recording();
    let world = World::memory();
    let way = Faulty::to(&world.store);
    way.meets(move |_, op| {
        if is_slow(op) {
            Fault::LatePolicy(ms(50))
        } else {
            Fault::None
        }
    });
    let builder = Bus::builder().only_registered().shared_store(way);
    let builder = builder.register_as(ORDERS.workers(1).buckets(1), probe);
    let bus = world.start(choose(builder)).await;
    let queue = bus.queue_named("orders").unwrap();
    bus.advance(secs(1)).await;
    Tried {
        bus,
        queue,
        seen,
        _guard: guard,
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_to_move_shows_up_in_that_stage_only() {
    let is_slow = |op: &StoreOp| matches!(op, StoreOp::MoveDue { .. });
    let without_ahead = |builder: BusBuilder| builder.read_ahead(Duration::ZERO);
    let tried = slow_at(is_slow, Probe::new(), without_ahead).await;
    tried.queue.push(1, secs(1)).await.unwrap();
    tried.bus.advance(secs(2)).await;
    assert_eq!(lateness(&tried.seen), [[50, 0, 0, 50]]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_to_fetch_shows_up_in_that_stage_only() {
    let is_slow = |op: &StoreOp| matches!(op, StoreOp::Fetch(_));
    let tried = slow_at(is_slow, Probe::new(), |builder| builder).await;
    tried.queue.push(1, When::Now).await.unwrap();
    tried.bus.advance(secs(2)).await;
    assert_eq!(lateness(&tried.seen), [[0, 50, 0, 50]]);
    let calls = |op| {
        tried
            .seen
            .values(&format!("duly_store_call_seconds{{op={op}}}"))
    };
    assert!(calls("fetch").iter().all(|took| *took >= 0.05));
    for op in ["push", "move", "settle"] {
        assert!(calls(op).iter().all(|took| *took == 0.0), "{op}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_to_fetch_delays_nothing_that_is_read_ahead() {
    let is_slow = |op: &StoreOp| matches!(op, StoreOp::Fetch(_));
    let tried = slow_at(is_slow, Probe::new(), |builder| builder).await;
    tried.queue.push(1, secs(1)).await.unwrap();
    tried.bus.advance(secs(2)).await;
    assert_eq!(lateness(&tried.seen), [[0, 0, 0, 0]]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_to_settle_shows_up_in_no_stage() {
    let is_slow = |op: &StoreOp| matches!(op, StoreOp::Settle { .. });
    let tried = slow_at(is_slow, Probe::new(), |builder| builder).await;
    tried.queue.push(1, When::Now).await.unwrap();
    tried.bus.advance(secs(2)).await;
    assert_eq!(lateness(&tried.seen), [[0, 0, 0, 0]]);
    assert_eq!(
        tried.seen.values("duly_store_call_seconds{op=settle}"),
        [0.05]
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_keeps_the_only_worker_shows_up_in_the_start_of_the_next() {
    let tried = slow_at(|_| false, Probe::taking(ms(50)), |builder| builder).await;
    tried.queue.push_many([1, 2], secs(0)).await.unwrap();
    tried.bus.advance(secs(2)).await;
    assert_eq!(lateness(&tried.seen), [[0, 0, 0, 0], [0, 0, 50, 50]]);
    assert_eq!(
        tried.seen.values("duly_handler_seconds{queue=orders}"),
        [0.05, 0.05]
    );
}

#[tokio::test(start_paused = true)]
async fn the_total_is_what_the_record_says() {
    let is_slow = |op: &StoreOp| matches!(op, StoreOp::Fetch(_));
    let tried = slow_at(is_slow, Probe::taking(ms(7)), |builder| builder).await;
    tried.queue.push_many(0..20, secs(0)).await.unwrap();
    tried.bus.advance(secs(2)).await;
    let records = tried.bus.records().page().await.unwrap();
    let late = |record: &duly::records::Record| record.lateness().map(|late| late.as_millis());
    let recorded: Vec<_> = records.items.iter().map(late).collect();
    let told = lateness(&tried.seen);
    let told: Vec<_> = told.iter().map(|stages| Some(stages[3].into())).collect();
    assert_eq!(told.len(), 20);
    assert_eq!(told, recorded);
}
