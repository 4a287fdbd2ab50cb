//! Each public future is polled n times and dropped, for each n until it completes: the bus still
//! works, nothing stays leased, and what is set is applied.

use duly::lease::LeaseOutcome;
use duly::testing::{Probe, TestBus};
use duly::time::When;
use futures_util::FutureExt;

use super::slow::Slow;
use super::stage::{PULLED, Stage, builder, echo};
use super::table::{CALLS, Call};
use crate::world::{World, ms, secs};

over_every_store! {
    what_is_dropped_half_way_leaves_a_bus_that_works,
    a_start_that_is_dropped_half_way_leaves_its_store_to_the_next,
}

/// No call is polled more often.
pub(crate) const POLLS_MAX: usize = 500;

/// Polls a future at most `polls` times and drops it; returns its result if it has one by then.
pub(crate) async fn polled<T>(
    mut future: impl Future<Output = T> + Unpin,
    polls: usize,
) -> Option<T> {
    for _ in 0..polls {
        if let Some(result) = (&mut future).now_or_never() {
            return Some(result);
        }
        tokio::time::sleep(ms(1)).await; // of the virtual clock: all others have had their turn
    }
    None
}

async fn what_is_dropped_half_way_leaves_a_bus_that_works(world: World) {
    let probe = echo();
    let bus = world.start(builder(Slow::over(&world.store), &probe)).await;
    for call in CALLS {
        for polls in 1.. {
            assert!(polls < POLLS_MAX, "{:?} is never done", call.place);
            let stage = Stage::of(&bus).await.unwrap();
            let (waiting, token) = (stage.waiting, stage.token.clone());
            let result = polled((call.run)(stage), polls).await;
            if let Some(result) = &result {
                assert!(result.is_ok(), "{:?}: {result:?}", call.place);
            }
            // What the stage has prepared.
            let _ = bus
                .settle_lease(&token, LeaseOutcome::Release)
                .await
                .unwrap();
            let pulled = bus.queue_named::<u64>(PULLED).unwrap();
            let _ = pulled.cancel(waiting).await.unwrap();
            pulled.cancel_by_key("other").await.unwrap();
            let _ = bus
                .dead_letters()
                .drop_all()
                .await
                .unwrap()
                .finished()
                .unwrap();
            works(&bus, &probe, call, polls).await;
            if result.is_some() {
                break;
            }
        }
    }
    bus.shutdown(secs(5)).await.unwrap();
}

/// Checks the bus after a call was polled so often.
async fn works(bus: &TestBus, probe: &Probe<u64>, call: &Call, polls: usize) {
    let at = format!("{:?} after {polls} polls", call.place);
    bus.advance(secs(1)).await;
    let set = bus.controls().await.unwrap();
    let set = set.get("handled").copied().unwrap_or_default();
    let expected = if set.paused {
        0
    } else {
        set.workers.map_or(4, usize::from)
    };
    assert_eq!(bus.load()[0].workers, expected, "{at}: stored, not applied");
    let default = duly::store::Control::default();
    if set != default {
        bus.resume("handled").await.unwrap();
        bus.set_workers_everywhere("handled", None).await.unwrap();
        bus.set_rate("handled", None).await.unwrap();
        bus.set_buckets("handled", None).await.unwrap();
    }
    let before = probe.count();
    let handled = bus.queue_named::<u64>("handled").unwrap();
    handled.push(77, When::Now).await.unwrap();
    bus.advance(secs(1)).await;
    assert!(probe.count() > before, "{at}: no handler runs");
    let stats = bus.stats("handled").await.unwrap();
    assert_eq!((stats.ready, stats.leased), (0, 0), "{at}: {stats:?}");
    let stats = bus.stats(PULLED).await.unwrap();
    assert_eq!(stats.leased, 0, "{at}: {stats:?}");
    let pulled = bus.queue_named::<u64>(PULLED).unwrap();
    pulled.push(78, When::Now).await.unwrap();
    let leased = pulled.lease(1_000, secs(60)).send().await.unwrap();
    let payloads: Vec<u64> = leased.iter().map(|it| it.event().payload).collect();
    assert!(payloads.contains(&78), "{at}: {payloads:?}");
    for leased in leased {
        let _ = leased.ack().await.unwrap();
    }
}

async fn a_start_that_is_dropped_half_way_leaves_its_store_to_the_next(world: World) {
    let probe = echo();
    for polls in 1.. {
        assert!(polls < POLLS_MAX, "the start is never done");
        let store = Slow::over(&world.store);
        let clock = std::sync::Arc::clone(&world.clock);
        let start = TestBus::start_on(clock, builder(store, &probe));
        let started = polled(Box::pin(start), polls).await;
        let is_done = started.is_some();
        if let Some(bus) = started {
            drop(bus.unwrap());
        }
        tokio::time::sleep(ms(10)).await;
        let users = std::sync::Arc::strong_count(&world.store);
        assert_eq!(
            users, 1,
            "after {polls} polls somebody holds on to the store"
        );
        if is_done {
            break;
        }
    }
}
