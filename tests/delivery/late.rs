//! What becomes of an event whose time has passed: expiry and lateness, as its pusher asked.

use duly::prelude::*;
use duly::records::Cause;
use duly::testing::Probe;

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    an_expired_event_never_starts_and_is_on_record,
    an_event_expires_also_in_the_ring,
    an_event_is_too_late_also_in_the_ring,
    what_is_too_late_for_its_next_attempt_has_used_those_before,
    a_late_event_is_delivered_unless_asked_otherwise,
    a_late_event_expires_where_asked,
    a_late_event_is_buried_where_asked,
    what_the_queue_says_of_late_events_goes_for_those_that_say_nothing,
}

/// A bus whose one worker is busy for the first minute.
async fn busy(world: &World) -> (duly::testing::TestBus, Queue<u64>, Probe<u64>) {
    let probe = Probe::running(|event: Event<u64>, _cx| async move {
        tokio::time::sleep(secs(event.payload)).await;
        Ok(())
    });
    let orders = ORDERS.workers(1).timeout(secs(3_600));
    let (bus, queue) = world.serve(orders, &probe).await;
    queue.push(60, When::Now).await.unwrap();
    bus.settle().await;
    (bus, queue, probe)
}

async fn an_expired_event_never_starts_and_is_on_record(world: World) {
    let (bus, queue) = world.push_only("orders").await;
    let event = queue.event(1_u64).after(secs(10)).expires_after(secs(60));
    let id = event.push().await.unwrap().id();
    let alive = queue.event(2).expires_after(secs(600)).push();
    let alive = alive.await.unwrap().id();
    bus.advance(secs(120)).await;
    bus.shutdown(secs(1)).await.unwrap();

    let world = world.restart();
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    bus.advance(secs(60)).await;
    assert_eq!(probe.attempts(), [(alive, 1)]);
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Expired]);
}

async fn an_event_expires_also_in_the_ring(world: World) {
    let (bus, queue, probe) = busy(&world).await;
    let event = queue.event(0).expires_after(secs(30)).push();
    let id = event.await.unwrap().id();
    bus.advance(secs(120)).await;
    assert_eq!(probe.count(), 1);
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Expired]);
}

/// Also at a later attempt, whose lateness counts from its own due time.
async fn an_event_is_too_late_also_in_the_ring(world: World) {
    let (bus, queue, probe) = busy(&world).await;
    let late = |late| queue.event(0_u64).late(late).push();
    let expires = late(LatePolicy::Expire(secs(5))).await.unwrap().id();
    let buried = late(LatePolicy::Bury(secs(5))).await.unwrap().id();
    let in_time = late(LatePolicy::Bury(secs(90))).await.unwrap().id();
    let delayed = queue.event(0_u64).after(secs(50));
    let delayed = delayed.late(LatePolicy::Expire(secs(15))).push();
    let delayed = delayed.await.unwrap().id();
    bus.advance(secs(120)).await;
    let mut started: Vec<_> = probe.attempts().into_iter().skip(1).collect();
    started.sort_unstable();
    let mut expected = [(in_time, 1), (delayed, 1)];
    expected.sort_unstable();
    assert_eq!(started, expected);
    assert_eq!(bus.outcomes(expires).await.unwrap(), [Outcome::Expired]);
    let history = bus.history(buried).await.unwrap();
    assert_eq!(history[0].outcome, Outcome::Buried);
    assert_eq!(history[0].cause, Some(Cause::TooLate));
    assert_eq!(history[0].attempt, 0, "none had begun");
    let dead = bus.dead_letters().page().await.unwrap();
    assert_eq!((dead.items[0].id, dead.items[0].tries), (buried, 0));
}

/// An attempt before it counts, wherever it becomes too late for the next one.
async fn what_is_too_late_for_its_next_attempt_has_used_those_before(world: World) {
    for is_in_the_ring in [true, false] {
        let probe = Probe::running(|event: Event<u64>, _cx| async move {
            tokio::time::sleep(secs(event.payload)).await;
            Err(Failure::retry("no"))
        });
        let orders = ORDERS.workers(1).timeout(secs(3_600));
        let (bus, queue) = world.serve(orders, &probe).await;
        let event = queue.event(0).attempts(5).late(LatePolicy::Bury(secs(5)));
        let id = event.push().await.unwrap().id();
        bus.settle().await;
        if is_in_the_ring {
            queue.event(60).attempts(1).push().await.unwrap();
            bus.settle().await;
        } else {
            bus.pause("orders").await.unwrap();
        }
        bus.advance(secs(100)).await;
        if !is_in_the_ring {
            bus.resume("orders").await.unwrap();
            bus.advance(secs(1)).await;
        }
        let history = bus.history(id).await.unwrap();
        let history: Vec<_> = history.iter().map(|it| (it.outcome, it.attempt)).collect();
        let expected = [(Outcome::Retried, 1), (Outcome::Buried, 0)];
        assert_eq!(history, expected, "{is_in_the_ring}");
        let dead = bus.dead_letters().page().await.unwrap();
        let dead = dead.items.iter().find(|dead| dead.id == id).unwrap();
        assert_eq!(dead.tries, 1, "{is_in_the_ring}");
        bus.shutdown(secs(1)).await.unwrap();
    }
}

async fn a_late_event_is_delivered_unless_asked_otherwise(world: World) {
    let (bus, queue, probe) = busy(&world).await;
    queue.push(0, secs(1)).await.unwrap();
    bus.advance(secs(120)).await;
    assert_eq!(probe.times(), [secs(0), secs(60)]);
}

async fn a_late_event_expires_where_asked(world: World) {
    let (bus, queue) = world.push_only("orders").await;
    let late = |late| queue.event(0_u64).late(late).push();
    let gone = late(LatePolicy::Expire(secs(5))).await.unwrap().id();
    let here = late(LatePolicy::Expire(secs(50))).await.unwrap().id();
    bus.advance(secs(20)).await;
    bus.shutdown(secs(1)).await.unwrap();

    let world = world.restart();
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    bus.advance(ms(1)).await;
    assert_eq!(probe.attempts(), [(here, 1)]);
    assert_eq!(bus.outcomes(gone).await.unwrap(), [Outcome::Expired]);
}

async fn a_late_event_is_buried_where_asked(world: World) {
    let (bus, queue) = world.push_only("orders").await;
    let event = queue.event(0_u64).late(LatePolicy::Bury(secs(5))).push();
    let id = event.await.unwrap().id();
    bus.advance(secs(20)).await;
    bus.shutdown(secs(1)).await.unwrap();

    let world = world.restart();
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    bus.advance(secs(1)).await;
    assert_eq!(probe.count(), 0);
    let history = bus.history(id).await.unwrap();
    assert_eq!(history[0].outcome, Outcome::Buried);
    assert_eq!(history[0].cause, Some(Cause::TooLate));
    let dead = bus.dead_letters().page().await.unwrap();
    assert_eq!(dead.items[0].id, id);
}

async fn what_the_queue_says_of_late_events_goes_for_those_that_say_nothing(world: World) {
    let choices = |late| QueueChoices {
        late: Some(late),
        ..QueueChoices::default()
    };
    let builder = world.builder().publish_only();
    let builder = builder.queue("orders", choices(LatePolicy::Expire(secs(5))));
    let bus = world.start(builder).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let silent = queue.push(1, When::Now).await.unwrap().id();
    let many = queue.push_many([2], secs(1)).await.unwrap()[0].id();
    let said = queue.event(3).late(LatePolicy::Bury(secs(5))).push();
    let said = said.await.unwrap().id();
    let here = queue.event(4).late(LatePolicy::Deliver).push();
    let here = here.await.unwrap().id();
    bus.advance(secs(20)).await;
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));

    let world = world.restart();
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    bus.advance(secs(1)).await;
    assert_eq!(probe.attempts(), [(here, 1)]);
    assert_eq!(bus.outcomes(silent).await.unwrap(), [Outcome::Expired]);
    assert_eq!(bus.outcomes(many).await.unwrap(), [Outcome::Expired]);
    let history = bus.history(said).await.unwrap();
    assert_eq!(history[0].cause, Some(Cause::TooLate));
}
