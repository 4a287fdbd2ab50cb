//! Promise 8: a stop loses nothing and waits for nothing but what runs.

use std::sync::{Arc, Mutex};

use duly::event::State as EventState;
use duly::prelude::*;
use duly::records::Cause;
use duly::store::operation::StoreOp;
use duly::testing::{Probe, TestBus};

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_stop_waits_for_what_runs_and_for_nothing_else,
    what_never_started_is_handed_back_at_once_and_has_used_nothing,
    what_waited_behind_a_slow_handler_has_used_nothing,
    what_was_read_ahead_is_handed_back_and_waits_on,
    what_a_late_fetch_brings_is_handed_back,
    a_stop_waits_until_the_store_has_every_outcome,
    an_idle_bus_stops_at_once,
    what_runs_beyond_the_grace_is_cut_and_uses_no_attempt,
    a_handler_that_never_ends_in_the_grace_is_a_dead_letter_at_last,
    a_last_attempt_that_is_cut_is_a_dead_letter,
    a_handler_is_told_before_it_is_cut,
    a_second_stop_waits_for_nothing_and_breaks_nothing,
    a_bus_that_is_dropped_stops_at_once_and_loses_nothing,
    a_stopped_bus_publishes_nothing,
    a_stopped_bus_takes_and_changes_nothing,
}

async fn a_stop_waits_for_what_runs_and_for_nothing_else(world: World) {
    let probe = Probe::taking(secs(5));
    let (bus, queue) = world.serve(ORDERS.workers(3), &probe).await;
    queue.push_many(0..100_u64, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;

    bus.shutdown(secs(30)).await.unwrap();

    assert_eq!(world.clock.elapsed(), secs(5));
    assert_eq!(probe.count(), 3);
    assert!(probe.seen().iter().all(|seen| seen.ended == Some(secs(5))));
    let world = world.restart();
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    let acked = bus.records().outcome(Outcome::Acked).page().await.unwrap();
    assert_eq!(acked.items.len(), 3);
    assert_eq!(bus.records().page().await.unwrap().items.len(), 3);
}

async fn what_never_started_is_handed_back_at_once_and_has_used_nothing(world: World) {
    let first = Probe::taking(secs(5));
    let (bus, queue) = world.serve(ORDERS.workers(3), &first).await;
    queue.push_many(0..100_u64, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    bus.shutdown(secs(30)).await.unwrap();
    drop((bus, queue));

    let world = world.restart();
    let stopped = world.clock.elapsed();
    let second = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &second).await;
    bus.settle().await;

    assert_eq!(second.count(), 97);
    assert_eq!(world.clock.elapsed(), stopped);
    assert!(second.attempts().iter().all(|(_, attempt)| *attempt == 1));
    let records = bus.records().outcome(Outcome::LeaseLost).page().await;
    assert_eq!(records.unwrap().items, []);
}

/// Quick handlers make a worker take several events at once; what it took is not what it started.
async fn what_waited_behind_a_slow_handler_has_used_nothing(world: World) {
    let first = Probe::<u64>::running(|event, _cx| async move {
        if event.payload >= 100 {
            std::future::pending::<()>().await;
        }
        Ok(())
    });
    let orders = ORDERS.workers(1).buckets(1);
    let (bus, queue) = world.serve(orders, &first).await;
    queue.push_many(0..150, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(first.count(), 101);
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));

    let world = world.restart();
    let second = Probe::<u64>::new();
    let (bus, _queue) = world.serve(orders, &second).await;
    bus.advance(secs(1)).await;

    let (cut, others): (Vec<_>, Vec<_>) =
        (second.seen().into_iter()).partition(|seen| seen.payload == 100);
    assert_eq!((cut.len(), cut[0].attempt), (1, 1));
    assert_eq!(others.len(), 49);
    assert!(others.iter().all(|seen| seen.attempt == 1));
    let lost = bus.records().outcome(Outcome::LeaseLost).page().await;
    assert_eq!(lost.unwrap().items, []);
}

async fn what_was_read_ahead_is_handed_back_and_waits_on(world: World) {
    let probe = Probe::<u64>::new();
    let builder = world.builder().read_ahead(secs(10));
    let bus = world
        .start(builder.register_as(ORDERS, probe.clone()))
        .await;
    let queue = bus.queue_named("orders").unwrap();
    let id = queue.push(1_u64, secs(60)).await.unwrap().id();
    bus.advance(secs(55)).await;
    bus.shutdown(secs(30)).await.unwrap();
    assert_eq!(world.clock.elapsed(), secs(55));
    drop((bus, queue));

    let world = world.restart();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let snapshot = queue.get(id).await.unwrap().unwrap();
    assert_eq!((snapshot.state, snapshot.tries), (EventState::Scheduled, 0));
    bus.advance(secs(10)).await;
    assert_eq!(probe.times(), [secs(60)]);
    assert_eq!(probe.attempts(), [(id, 1)]);
}

/// A bus with one handler, on a way to the store that may be faulty.
async fn faulty(world: &World, probe: &Probe<u64>) -> (TestBus, Queue<u64>, Arc<Faulty>) {
    let way = Faulty::to(&world.store);
    let builder = Bus::builder().only_registered().read_ahead(secs(10));
    let builder = builder.shared_store(Arc::clone(&way) as _);
    let bus = world
        .start(builder.register_as(ORDERS, probe.clone()))
        .await;
    let queue = bus.queue_named("orders").unwrap();
    (bus, queue, way)
}

/// The answer to a fetch was lost before the stop, and the fetch that asks again comes after it.
async fn what_a_late_fetch_brings_is_handed_back(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue, way) = faulty(&world, &probe).await;
    let id = queue.push(1, secs(60)).await.unwrap().id();
    bus.advance(secs(45)).await;
    way.meets(|_, op| match op {
        StoreOp::Fetch(_) => Fault::Lost,
        _ => Fault::None,
    });
    bus.advance(secs(10)).await;
    let snapshot = queue.get(id).await.unwrap().unwrap();
    assert_eq!(snapshot.state, EventState::Leased);
    way.is(Fault::None);
    bus.shutdown(secs(30)).await.unwrap();
    assert!(world.clock.elapsed() < secs(60));
    drop((bus, queue, way));

    let world = world.restart();
    let (_bus, queue) = world.push_only::<u64>("orders").await;
    let snapshot = queue.get(id).await.unwrap().unwrap();
    assert_eq!((snapshot.state, snapshot.tries), (EventState::Scheduled, 0));
    assert_eq!(probe.count(), 0);
}

/// A store that is away for a moment gets them when it is back, and the stop is over after that.
async fn a_stop_waits_until_the_store_has_every_outcome(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue, way) = faulty(&world, &probe).await;
    let mut refused = 0;
    way.meets(move |_, op| match op {
        StoreOp::Settle { .. } if refused < 5 => {
            refused += 1;
            Fault::Refused(ErrorKind::Unavailable)
        }
        _ => Fault::None,
    });
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.settle().await;
    assert_eq!(probe.count(), 1);
    bus.shutdown(secs(30)).await.unwrap();
    drop((bus, queue, way));

    let world = world.restart();
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    let records = bus.records().id(id).page().await.unwrap().items;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].outcome, Outcome::Acked);
}

async fn an_idle_bus_stops_at_once(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::new()).await;
    queue.push(1_u64, secs(60)).await.unwrap();
    bus.advance(secs(1)).await;
    bus.shutdown(secs(3_600)).await.unwrap();
    assert_eq!(world.clock.elapsed(), secs(1));
}

async fn what_runs_beyond_the_grace_is_cut_and_uses_no_attempt(world: World) {
    let hanging = Probe::<u64>::running(|_event, _cx| std::future::pending());
    let (bus, queue) = world.serve(ORDERS, &hanging).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    bus.shutdown(secs(5)).await.unwrap();
    assert!(world.clock.elapsed() >= secs(6));
    assert!(world.clock.elapsed() < secs(7));
    assert_eq!(hanging.running_now(), 0);
    drop((bus, queue));

    let world = world.restart();
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    bus.settle().await;
    assert_eq!(probe.attempts(), [(id, 1)]);
    let history = bus.history(id).await.unwrap();
    assert_eq!(history[0].outcome, Outcome::Interrupted);
    assert_eq!(history[0].cause, Some(Cause::Interrupted));
    assert_eq!(history[1].outcome, Outcome::Acked);
    assert_eq!(history.len(), 2);
}

/// Over restarts: free interruptions, and then attempts.
async fn a_handler_that_never_ends_in_the_grace_is_a_dead_letter_at_last(world: World) {
    let hanging = Probe::<u64>::running(|_event, _cx| std::future::pending());
    let orders = ORDERS.attempts(2).free_interruptions(3);
    let (bus, queue) = world.serve(orders, &hanging).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    bus.shutdown(secs(5)).await.unwrap();
    drop((bus, queue));
    let mut world = world.restart();
    for _ in 0..4 {
        let (bus, queue) = world.serve(orders, &hanging).await;
        bus.advance(secs(1)).await;
        assert_eq!(hanging.running_now(), 1);
        bus.shutdown(secs(5)).await.unwrap();
        drop((bus, queue));
        world = world.restart();
    }
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    assert_eq!(bus.dead_letters().page().await.unwrap().items[0].id, id);
    let (free, counted) = (Outcome::Interrupted, Outcome::Retried);
    let expected = [free, free, free, counted, Outcome::Buried];
    assert_eq!(bus.outcomes(id).await.unwrap(), expected);
    let attempts = hanging.attempts().into_iter().map(|(_, attempt)| attempt);
    assert_eq!(attempts.collect::<Vec<_>>(), [1, 1, 1, 1, 2]);
}

async fn a_last_attempt_that_is_cut_is_a_dead_letter(world: World) {
    let hanging = Probe::<u64>::running(|_event, _cx| std::future::pending());
    let (bus, queue) = world
        .serve(ORDERS.attempts(1).free_interruptions(0), &hanging)
        .await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    bus.shutdown(secs(5)).await.unwrap();
    drop((bus, queue));

    let world = world.restart();
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    let dead = bus.dead_letters().page().await.unwrap();
    assert_eq!(dead.items[0].id, id);
    let history = bus.history(id).await.unwrap();
    assert_eq!(history[0].outcome, Outcome::Buried);
    assert_eq!(history[0].cause, Some(Cause::Interrupted));
}

async fn a_handler_is_told_before_it_is_cut(world: World) {
    let probe = Probe::<u64>::running(|_event, cx| {
        let told = cx.cancellation();
        async move {
            told.cancelled().await;
            Ok(()) // it has put away what it had
        }
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    bus.shutdown(secs(5)).await.unwrap();
    assert_eq!(world.clock.elapsed(), secs(6));
    drop((bus, queue));

    let world = world.restart();
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Acked]);
}

/// Who stops a second time must not close the store under what the first one still waits for.
async fn a_second_stop_waits_for_nothing_and_breaks_nothing(world: World) {
    let probe = Probe::taking(secs(5));
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.push(1_u64, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let (first, second) = tokio::join!(bus.shutdown(secs(30)), bus.shutdown(secs(30)));
    first.unwrap();
    second.unwrap();
    bus.shutdown(secs(30)).await.unwrap();
    assert_eq!(world.clock.elapsed(), secs(5));
    drop((bus, queue));

    let world = world.restart();
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Acked]);
}

async fn a_bus_that_is_dropped_stops_at_once_and_loses_nothing(world: World) {
    let world = {
        let hanging = Probe::<u64>::running(|_event, _cx| std::future::pending());
        let (bus, queue) = world.serve(ORDERS, &hanging).await;
        queue.push_many(0..20, secs(0)).await.unwrap();
        queue.push_many(20..40, secs(30)).await.unwrap();
        bus.advance(secs(1)).await;
        assert_eq!(hanging.running_now(), 16);
        drop((bus, queue));
        tokio::time::sleep(ms(1)).await; // of the virtual clock: each task has had its turn
        assert_eq!(hanging.running_now(), 0, "a handler outlives its bus");
        assert_eq!(
            Arc::strong_count(&world.store),
            1,
            "somebody holds on to it"
        );
        if world.store.durability() == duly::store::Durability::Memory {
            return; // it died with its bus, as it says
        }
        world.restart()
    };
    let probe = Probe::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    bus.advance(secs(60)).await;
    let mut payloads: Vec<u64> = probe.payloads();
    payloads.sort_unstable();
    assert!(payloads.into_iter().eq(0..40));
}

async fn a_stopped_bus_publishes_nothing(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    queue.publish(1_u64).await.unwrap();
    bus.settle().await;
    bus.shutdown(secs(1)).await.unwrap();

    let error = queue.publish(2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let (back, error) = queue.try_publish(3).unwrap_err();
    assert_eq!((back, error.kind()), (3, ErrorKind::Closed));
    assert_eq!(
        bus.set_workers("orders", 1).unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(probe.payloads(), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_is_told_that_the_bus_has_stopped() {
    let world = World::memory();
    let told = Arc::new(Mutex::new(None));
    let hanging = Probe::<u64>::running(|_event, _cx| std::future::pending());
    let (bus, queue) = world.serve(ORDERS, &hanging).await;
    tokio::spawn({
        let told = Arc::clone(&told);
        async move {
            let answer = queue.call::<()>(1, secs(3_600)).await;
            *told.lock().unwrap() = Some(answer.unwrap_err().kind());
        }
    });
    bus.advance(secs(1)).await;
    assert_eq!(*told.lock().unwrap(), None);
    bus.shutdown(secs(1)).await.unwrap();
    bus.settle().await;
    assert_eq!(*told.lock().unwrap(), Some(ErrorKind::Closed));
}

async fn a_stopped_bus_takes_and_changes_nothing(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let waiting = queue.push(7, secs(60)).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();

    assert_eq!(
        queue.push(8, When::Now).await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    let cancelled = queue.cancel(waiting.id()).await;
    assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Closed);
}
