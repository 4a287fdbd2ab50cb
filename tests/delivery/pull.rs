//! Consumers that pull: leases with a deadline, waits that cost nothing, tokens for any process.

mod away;
mod lists;
mod outcomes;
mod several;

use std::time::Duration;

use duly::codec::Raw;
use duly::event::State;
use duly::lease::{EndResult, LeaseStatus};
use duly::prelude::*;
use duly::store::operation::Stats;
use duly::testing::{Probe, TestBus};

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    what_is_ready_is_leased_at_once_and_nothing_is_waited_for,
    a_batch_takes_what_is_ready_in_every_bucket,
    who_waits_gets_the_next_event_and_the_others_wait_on,
    who_waits_gets_a_delayed_event_when_it_is_due_and_not_before,
    a_wait_ends_with_nothing_at_its_time,
    a_queue_that_comes_first_is_emptied_first,
    while_waiting_the_order_of_the_queues_counts,
    a_waiter_that_is_gone_eats_no_event,
    an_event_that_was_leased_for_nobody_has_used_no_attempt,
    a_paused_queue_gives_nothing_and_a_resumed_one_gives_at_once,
    nothing_is_leased_once_a_pause_is_confirmed,
    a_rate_holds_for_who_pulls,
    an_expired_event_is_not_handed_out,
    a_queue_may_have_handlers_and_pullers,
    an_event_is_ended_by_its_id_whoever_holds_it,
    an_event_whose_lease_was_lost_is_ended_by_its_id_all_the_same,
    an_undecodable_event_is_buried_and_the_rest_is_returned,
    events_of_one_call_are_pushed_all_or_none,
    who_asks_for_too_much_is_refused,
    a_stop_refuses_those_who_wait,
}

async fn pulling(world: &World) -> (TestBus, Queue<u64>) {
    world.push_only::<u64>("orders").await
}

/// What is leased without a wait.
async fn payloads(queue: &Queue<u64>, max: usize) -> Vec<u64> {
    let leased = queue.lease(max, secs(60)).send().await.unwrap();
    let mut payloads: Vec<u64> = leased.iter().map(|it| it.event().payload).collect();
    payloads.sort_unstable();
    payloads
}

async fn stats(bus: &Bus, queue: &str) -> Stats {
    bus.stats(queue).await.unwrap()
}

async fn what_is_ready_is_leased_at_once_and_nothing_is_waited_for(world: World) {
    let (bus, queue) = pulling(&world).await;
    assert!(payloads(&queue, 10).await.is_empty());
    queue.push(8, secs(60)).await.unwrap();
    let sent = queue.event(7).attempts(3).header("a", "b").push();
    let id = sent.await.unwrap().id();
    let leased = queue.lease(10, secs(60)).send().await.unwrap();
    assert_eq!(leased.len(), 1);
    let it = &leased[0];
    assert_eq!((it.id(), it.event().payload), (id, 7));
    assert_eq!((it.attempt(), it.attempts_left()), (1, 2));
    assert_eq!(it.event().header("a"), Some("b"));
    assert_eq!(it.deadline(), bus.now() + secs(60));
    assert!(payloads(&queue, 10).await.is_empty(), "it is leased");
    assert_eq!(it.ack().await.unwrap(), LeaseStatus::Held);
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Acked]);
    assert_eq!(bus.clock().elapsed(), secs(0));
}

async fn a_batch_takes_what_is_ready_in_every_bucket(world: World) {
    let (bus, queue) = pulling(&world).await;
    queue.push_many(0..200, Duration::ZERO).await.unwrap();
    queue.push_many(200..300, ms(10)).await.unwrap();
    bus.advance(ms(10)).await;
    let first = payloads(&queue, 120).await;
    assert_eq!(first.len(), 120);
    let mut all = [first, payloads(&queue, 1_000).await].concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..300));
}

async fn who_waits_gets_the_next_event_and_the_others_wait_on(world: World) {
    let (bus, queue) = pulling(&world).await;
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let request = queue.lease(5, secs(60)).wait(secs(100));
            tokio::spawn(request.send())
        })
        .collect();
    bus.advance(secs(1)).await;
    for number in 0..2 {
        queue.push(number, When::Now).await.unwrap();
        bus.settle().await;
    }
    let done: Vec<_> = waiting.iter().map(|it| it.is_finished()).collect();
    assert_eq!(done, [true, true, false], "one event, one waiter, in order");
    queue.push(2, When::Now).await.unwrap();
    for (number, it) in waiting.into_iter().enumerate() {
        let leased = it.await.unwrap().unwrap();
        assert_eq!(leased[0].event().payload, number as u64);
        assert_eq!(leased.len(), 1);
    }
    assert_eq!(bus.clock().elapsed(), secs(1));
}

async fn who_waits_gets_a_delayed_event_when_it_is_due_and_not_before(world: World) {
    let (bus, queue) = pulling(&world).await;
    queue.push(1, ms(1_500)).await.unwrap();
    let leased = queue.lease(1, secs(60)).wait(secs(100)).send().await;
    assert_eq!(leased.unwrap().len(), 1);
    assert_eq!(bus.clock().elapsed(), ms(1_500));
    let waiting = tokio::spawn(queue.lease(1, secs(60)).wait(secs(100)).send());
    bus.settle().await;
    queue.push(2, ms(700)).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().len(), 1);
    assert_eq!(bus.clock().elapsed(), ms(2_200));
}

async fn a_wait_ends_with_nothing_at_its_time(world: World) {
    let (bus, queue) = pulling(&world).await;
    let leased = queue.lease(1, secs(60)).wait(secs(3)).send().await.unwrap();
    assert!(leased.is_empty());
    assert_eq!(bus.clock().elapsed(), secs(3));
    queue.push(1, When::Now).await.unwrap();
    assert_eq!(payloads(&queue, 1).await, [1], "nobody waits any more");
}

async fn a_queue_that_comes_first_is_emptied_first(world: World) {
    let (bus, low) = world.push_only::<u64>("low").await;
    let high = bus.queue_named::<u64>("high").unwrap();
    low.push_many(0..100, Duration::ZERO).await.unwrap();
    high.push_many(100..200, Duration::ZERO).await.unwrap();
    let queues = [high.name().clone(), low.name().clone()];
    let request = bus.lease_from(&queues, 120, secs(60));
    let leased = request.send().await.unwrap();
    let of_high = leased.iter().filter(|it| it.queue() == high.name());
    assert_eq!((leased.len(), of_high.count()), (120, 100));
    let request = bus.lease_from(&queues, 1_000, secs(60));
    assert_eq!(request.send().await.unwrap().len(), 80);
}

async fn while_waiting_the_order_of_the_queues_counts(world: World) {
    let (bus, low) = world.push_only::<u64>("low").await;
    let high = bus.queue_named::<u64>("high").unwrap();
    let queues = [high.name().clone(), low.name().clone()];
    let waiting = tokio::spawn(bus.lease_from(&queues, 1, secs(60)).wait(secs(9)).send());
    bus.advance(secs(1)).await;
    // Both are due at once.
    low.push(1, ms(50)).await.unwrap();
    high.push(2, ms(50)).await.unwrap();
    let leased = waiting.await.unwrap().unwrap();
    assert_eq!(leased[0].event().payload.bytes, b"2");
    assert_eq!(payloads(&low, 1).await, [1]);
}

async fn a_waiter_that_is_gone_eats_no_event(world: World) {
    let (bus, queue) = pulling(&world).await;
    for _ in 0..3 {
        let waiting = tokio::spawn(queue.lease(1, secs(60)).wait(secs(100)).send());
        bus.settle().await;
        waiting.abort();
        bus.settle().await;
    }
    queue.push(1, When::Now).await.unwrap();
    bus.settle().await;
    assert_eq!(stats(&bus, "orders").await.ready, 1);
    assert_eq!(payloads(&queue, 1).await, [1]);
}

/// The event is on its way to its caller, which is dropped without having been polled again.
async fn an_event_that_was_leased_for_nobody_has_used_no_attempt(world: World) {
    let (bus, queue) = pulling(&world).await;
    let id = queue.event(1).attempts(1).push().await.unwrap().id();
    let mut waiting = Box::pin(queue.lease(1, secs(60)).wait(secs(100)).send());
    let mut polls = 0;
    // Until it is leased, but without a last poll of the caller.
    while queue.get(id).await.unwrap().unwrap().state != State::Leased {
        let polled = futures_poll(waiting.as_mut()).await;
        assert!(!polled, "it has not been handed out yet");
        polls += 1;
        assert!(polls < 100);
        tokio::task::yield_now().await;
    }
    drop(waiting);
    bus.settle().await;
    let found = queue.get(id).await.unwrap().unwrap();
    assert_eq!((found.state, found.tries), (State::Ready, 0));
    assert!(bus.outcomes(id).await.unwrap().is_empty());
    assert_eq!(payloads(&queue, 1).await, [1]);
}

/// Polls once; returns whether it is ready.
async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

async fn a_paused_queue_gives_nothing_and_a_resumed_one_gives_at_once(world: World) {
    let (bus, queue) = pulling(&world).await;
    queue.push(1, When::Now).await.unwrap();
    bus.pause("orders").await.unwrap();
    assert!(payloads(&queue, 1).await.is_empty());
    let waiting = tokio::spawn(queue.lease(1, secs(60)).wait(secs(100)).send());
    bus.advance(secs(5)).await;
    assert!(!waiting.is_finished());
    bus.resume("orders").await.unwrap();
    bus.settle().await;
    assert_eq!(waiting.await.unwrap().unwrap().len(), 1);
    assert_eq!(bus.clock().elapsed(), secs(5));
}

async fn nothing_is_leased_once_a_pause_is_confirmed(world: World) {
    let (bus, queue) = pulling(&world).await;
    queue.push(1, When::Now).await.unwrap();
    for round in 0..50 {
        // The puller knows the queue by now, and may be on its way.
        bus.pause("orders").await.unwrap();
        assert!(payloads(&queue, 1).await.is_empty(), "round {round}");
        bus.resume("orders").await.unwrap();
        let leased = queue
            .lease(1, secs(60))
            .wait(secs(10))
            .send()
            .await
            .unwrap();
        assert_eq!(leased[0].release().await.unwrap(), LeaseStatus::Held);
        bus.settle().await;
    }
}

async fn a_rate_holds_for_who_pulls(world: World) {
    let (bus, queue) = pulling(&world).await;
    queue.push_many(0..500, Duration::ZERO).await.unwrap();
    bus.set_rate("orders", Some(10.0)).await.unwrap();
    let mut got = 0;
    let until = bus.clock().elapsed() + secs(10);
    while bus.clock().elapsed() < until {
        let request = queue.lease(100, secs(600)).wait(secs(1));
        got += request.send().await.unwrap().len();
    }
    assert!((98..=102).contains(&got), "{got} in ten seconds");
}

async fn an_expired_event_is_not_handed_out(world: World) {
    let (bus, queue) = pulling(&world).await;
    let event = queue.event(1).expires_after(secs(1));
    let id = event.push().await.unwrap().id();
    bus.advance(secs(1)).await;
    assert!(payloads(&queue, 1).await.is_empty());
    bus.settle().await;
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Expired]);
}

async fn a_queue_may_have_handlers_and_pullers(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let waiting: Vec<_> = (0..10)
        .map(|_| tokio::spawn(queue.lease(1, secs(600)).wait(secs(5)).send()))
        .collect();
    bus.settle().await;
    queue.push_many(0..100, ms(10)).await.unwrap();
    bus.advance(secs(5)).await;
    let mut all = probe.payloads();
    for it in waiting {
        for leased in it.await.unwrap().unwrap() {
            all.push(leased.event().payload);
            assert_eq!(leased.ack().await.unwrap(), LeaseStatus::Held);
        }
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..100), "each goes to one of them");
}

async fn an_event_is_ended_by_its_id_whoever_holds_it(world: World) {
    let (bus, queue) = pulling(&world).await;
    let id = queue.push(1, secs(60)).await.unwrap().id();
    assert_eq!(queue.end(id).await.unwrap(), EndResult::Cancelled);
    let id = queue.push(2, When::Now).await.unwrap().id();
    let leased = queue.lease(1, secs(60)).send().await.unwrap();
    let other = world.start(world.builder().publish_only()).await;
    let elsewhere = other.queue_named::<Raw>("orders").unwrap();
    assert_eq!(elsewhere.end(id).await.unwrap(), EndResult::Acked);
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Acked]);
    assert_eq!(leased[0].bury("late").await.unwrap(), LeaseStatus::Lost);
    let over = EndResult::TooLate(State::Done);
    assert_eq!(queue.end(id).await.unwrap(), over);
    let unknown = queue.new_id();
    assert_eq!(queue.end(unknown).await.unwrap(), EndResult::NotFound);
}

async fn an_event_whose_lease_was_lost_is_ended_by_its_id_all_the_same(world: World) {
    let (bus, queue) = pulling(&world).await;
    let id = queue.event(1).attempts(9).push().await.unwrap().id();
    let leased = queue.lease(1, secs(2)).send().await.unwrap();
    bus.advance(ms(2_100)).await;
    assert_eq!(leased[0].id(), id);
    assert_eq!(queue.end(id).await.unwrap(), EndResult::Cancelled);
    let after = stats(&bus, "orders").await;
    assert_eq!((after.ready, after.scheduled, after.leased), (0, 0, 0));

    // Leased by another process in between: its lease is the one that ends.
    let id = queue.event(2).attempts(9).push().await.unwrap().id();
    let first = queue.lease(1, secs(2)).send().await.unwrap();
    bus.advance(ms(2_100)).await;
    let other = world.start(world.builder().publish_only()).await;
    let elsewhere = other.queue_named::<u64>("orders").unwrap();
    let second = elsewhere.lease(1, secs(60)).wait(secs(9)).send();
    let second = second.await.unwrap();
    assert_eq!(queue.end(id).await.unwrap(), EndResult::Acked);
    assert_eq!(first[0].ack().await.unwrap(), LeaseStatus::Lost);
    assert_eq!(second[0].bury("late").await.unwrap(), LeaseStatus::Lost);
}

async fn an_undecodable_event_is_buried_and_the_rest_is_returned(world: World) {
    let (bus, queue) = pulling(&world).await;
    let words = bus.queue_named::<String>("orders").unwrap();
    let id = words
        .push("seven".to_owned(), When::Now)
        .await
        .unwrap()
        .id();
    queue.push(7, When::Now).await.unwrap();
    assert_eq!(payloads(&queue, 2).await, [7]);
    bus.settle().await;
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Buried]);
}

async fn events_of_one_call_are_pushed_all_or_none(world: World) {
    let (bus, queue) = pulling(&world).await;
    let events = || (0..64).map(|number| queue.event(number).after(secs(1)));
    let sent = queue
        .push_many(events(), When::Now)
        .all_or_none()
        .await
        .unwrap();
    let buckets: std::collections::BTreeSet<_> = sent.iter().map(|it| it.id().bucket()).collect();
    assert_eq!((sent.len(), buckets.len()), (64, 1));
    assert_eq!(stats(&bus, "orders").await.scheduled, 64);
    let too_late = queue.event(64).after(Duration::from_secs(u64::MAX / 4));
    let refused = queue
        .push_many(events().chain([too_late]), When::Now)
        .all_or_none()
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let keyed = queue.event(64).key("order:7");
    let refused = queue
        .push_many(events().chain([keyed]), When::Now)
        .all_or_none()
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(stats(&bus, "orders").await.scheduled, 64);
}

async fn who_asks_for_too_much_is_refused(world: World) {
    let (bus, queue) = pulling(&world).await;
    for request in [
        queue.lease(0, secs(1)),
        queue.lease(1_001, secs(1)),
        queue.lease(1, Duration::MAX),
        queue.lease(1, secs(1)).wait(Duration::MAX),
    ] {
        assert_eq!(request.send().await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let none = bus.lease_from(&[], 1, secs(1)).send().await;
    assert_eq!(none.unwrap_err().kind(), ErrorKind::Invalid);
}

async fn a_stop_refuses_those_who_wait(world: World) {
    let (bus, queue) = pulling(&world).await;
    let waiting = tokio::spawn(queue.lease(1, secs(60)).wait(secs(100)).send());
    bus.settle().await;
    bus.shutdown(secs(1)).await.unwrap();
    let refused = waiting.await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    let refused = queue.lease(1, secs(60)).send().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
}
