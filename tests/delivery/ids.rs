//! Promise 10: a pushed id is a promise; and what unique keys and keys promise.

use std::sync::Arc;

use duly::prelude::*;
use duly::store::MemoryStore;
use duly::testing::{Probe, TestBus, VirtualClock};

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    the_same_id_twice_changes_nothing,
    the_same_id_is_known_after_its_event_is_over,
    the_same_id_with_another_payload_is_a_conflict,
    a_unique_event_keeps_the_second_one_out,
    a_unique_event_gives_way_when_asked_to_and_still_waiting,
    a_unique_key_is_free_when_its_event_is_over,
    a_replaced_event_whose_handler_runs_is_left_alone,
    a_unique_key_stays_taken_after_its_event_for_as_long_as_asked,
    an_id_from_a_name_is_pushed_once,
    events_with_ids_of_their_own_keep_each_other_out,
}

async fn the_same_id_twice_changes_nothing(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.new_id();
    let push = |delay| queue.event(7_u64).id(id).after(delay).push();
    let first = push(secs(10)).await.unwrap();
    let second = push(secs(1)).await.unwrap();

    assert!(first.is_accepted());
    assert!(second.is_duplicate());
    assert_eq!((second.id(), second.due()), (id, first.due()));
    bus.advance(secs(60)).await;
    assert_eq!(probe.times(), [secs(10)]);
}

async fn the_same_id_is_known_after_its_event_is_over(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.new_id();
    queue.event(7_u64).id(id).push().await.unwrap();
    bus.advance(secs(1)).await;

    let again = queue.event(7).id(id).push().await.unwrap();
    assert!(again.is_duplicate());
    bus.shutdown(secs(1)).await.unwrap();
    let world = world.restart();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let after_restart = queue.event(7).id(id).push().await.unwrap();
    assert!(after_restart.is_duplicate());
    bus.advance(secs(60)).await;
    assert_eq!(probe.attempts(), [(id, 1)]);
}

async fn the_same_id_with_another_payload_is_a_conflict(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.new_id();
    let push = |payload: u64| queue.event(payload).id(id).after(secs(1)).push();
    push(7).await.unwrap();
    let waiting = push(8).await.unwrap_err();
    bus.advance(secs(2)).await;
    let over = push(8).await.unwrap_err();

    assert_eq!(waiting.kind(), ErrorKind::Conflict);
    assert_eq!(over.kind(), ErrorKind::Conflict);
    assert_eq!(probe.payloads(), [7]);
}

async fn a_unique_event_keeps_the_second_one_out(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let push = |number, delay| {
        let event = queue.event(number).after(delay);
        event.unique("close:8", Unique::Keep).push()
    };
    let first = push(1_u64, secs(10)).await.unwrap();
    let second = push(2, secs(5)).await.unwrap();

    assert!(second.is_duplicate());
    assert_eq!(second.id(), first.id());
    bus.advance(secs(60)).await;
    assert_eq!(probe.payloads(), [1]);
}

async fn a_unique_event_gives_way_when_asked_to_and_still_waiting(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let push = |number, delay| {
        let event = queue.event(number).after(delay);
        event.unique("close:8", Unique::Replace).push()
    };
    let first = push(1_u64, secs(10)).await.unwrap();
    let second = push(2, secs(5)).await.unwrap();

    assert_eq!(second.replaced(), Some(first.id()));
    bus.advance(secs(60)).await;
    assert_eq!(probe.payloads(), [2]);
    let outcomes = bus.outcomes(first.id()).await.unwrap();
    assert_eq!(outcomes, [Outcome::Cancelled]);
}

async fn a_unique_key_is_free_when_its_event_is_over(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    for _ in 0..3 {
        let event = queue.event(1_u64).unique("close:8", Unique::Keep);
        assert!(event.push().await.unwrap().is_accepted());
        bus.advance(secs(1)).await;
    }
    assert_eq!(probe.count(), 3);
}

async fn a_replaced_event_whose_handler_runs_is_left_alone(world: World) {
    let probe = Probe::taking(secs(5));
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let push = |number| {
        queue
            .event(number)
            .unique("close:8", Unique::Replace)
            .push()
    };
    push(1_u64).await.unwrap();
    bus.advance(secs(1)).await;
    let second = push(2).await.unwrap();

    assert!(second.is_accepted());
    assert_eq!(second.replaced(), None);
    bus.advance(secs(60)).await;
    assert_eq!(probe.payloads(), [1, 2]);
    assert_eq!(bus.records().page().await.unwrap().items.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_id_older_than_all_that_is_remembered_is_refused() {
    let clock = Arc::new(VirtualClock::new());
    let store = MemoryStore::with_clock(Arc::clone(&clock) as _).with_memory(2, 100);
    let probe = Probe::<u64>::new();
    let builder = Bus::builder().only_registered().store(store);
    let builder = builder.register_as(ORDERS.buckets(1), probe.clone());
    let bus = TestBus::start_on(clock, builder).await.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let old = queue.new_id();
    queue.event(0).id(old).push().await.unwrap();
    for number in 1..10 {
        bus.advance(ms(5)).await;
        queue.push(number, When::Now).await.unwrap();
    }
    bus.advance(secs(59)).await;
    let again = queue.event(0).id(old).push().await.unwrap();
    assert!(again.is_duplicate(), "it ended less than a minute ago");
    bus.advance(secs(2)).await;
    queue.push(10, When::Now).await.unwrap();
    bus.advance(secs(1)).await;

    let error = queue.event(0).id(old).push().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("older than"), "{error}");
    assert_eq!(probe.count(), 11);
}

#[tokio::test(start_paused = true)]
async fn events_of_one_key_share_a_bucket() {
    let world = World::memory();
    let (_bus, queue) = world.push_only("orders").await;
    let mut buckets = Vec::new();
    for number in 0..20_u64 {
        let event = queue.event(number).after(secs(1)).key("order:8");
        buckets.push(event.push().await.unwrap().id().bucket());
    }
    buckets.dedup();
    assert_eq!(buckets.len(), 1);
}

async fn a_unique_key_stays_taken_after_its_event_for_as_long_as_asked(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let push = |queue: &Queue<u64>, number| {
        let event = queue.event(number).unique("welcome:7", Unique::Keep);
        event.unique_for(secs(3_600)).push()
    };
    let first = push(&queue, 1).await.unwrap();
    bus.advance(secs(60)).await;
    let second = push(&queue, 2).await.unwrap();
    assert!(second.is_duplicate() && second.id() == first.id());
    bus.shutdown(secs(1)).await.unwrap();
    let world = world.restart();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    bus.advance(secs(3_000)).await;
    assert!(push(&queue, 3).await.unwrap().is_duplicate(), "not yet");
    bus.advance(secs(600)).await;
    assert!(push(&queue, 4).await.unwrap().is_accepted());
    bus.advance(secs(1)).await;
    assert_eq!(probe.payloads(), [1, 4]);

    let without = queue.event(5).unique_for(secs(1)).push().await;
    assert_eq!(without.unwrap_err().kind(), ErrorKind::Invalid);
    let endless = queue.event(5).unique("k", Unique::Keep);
    let endless = endless.unique_for(secs(400 * 86_400)).push().await;
    assert_eq!(endless.unwrap_err().kind(), ErrorKind::Invalid);
}

async fn an_id_from_a_name_is_pushed_once(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.id_for_name("order:7:first-mail");
    let push = |queue: &Queue<u64>, payload| queue.event(payload).id(id).after(secs(5)).push();
    assert!(push(&queue, 1).await.unwrap().is_accepted());
    bus.set_buckets("orders", Some(3)).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(queue.id_for_name("order:7:first-mail"), id);
    assert!(push(&queue, 1).await.unwrap().is_duplicate(), "it waits");
    let other = push(&queue, 2).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Conflict);
    bus.advance(secs(10)).await;
    assert!(push(&queue, 1).await.unwrap().is_duplicate(), "it is over");
    bus.shutdown(secs(1)).await.unwrap();
    let world = world.restart();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    assert!(push(&queue, 1).await.unwrap().is_duplicate());
    bus.advance(secs(60)).await;
    assert_eq!(probe.attempts(), [(id, 1)]);
}

/// However much has been forgotten, a name tells no time and is never too old: it is free again.
#[tokio::test(start_paused = true)]
async fn an_id_from_a_name_is_free_again_and_never_too_old() {
    let world = World::memory_of_ten();
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let names: Vec<_> = (0..60)
        .map(|n| queue.id_for_name(&format!("n{n}")))
        .collect();
    for round in 0..2 {
        for id in &names {
            queue.event(7).id(*id).push().await.unwrap();
        }
        // Whatever may be remembered for some time is not any more then.
        bus.advance(secs(86_400)).await;
        queue.push_many(0..2_000, secs(0)).await.unwrap();
        bus.advance(secs(86_400)).await;
        let seen = probe.attempts();
        let count = |id: &&EventId| seen.iter().filter(|it| it.0 == **id).count() > round;
        assert!(names.iter().all(|id| count(&id)), "round {round}");
    }
}

async fn events_with_ids_of_their_own_keep_each_other_out(world: World) {
    let (_bus, queue) = world.push_only::<u64>("orders").await;
    let mut accepted = 0;
    for number in 0..200 {
        let key = format!("close:{}", number % 10);
        let event = queue
            .event(number)
            .after(secs(60))
            .id(queue.new_id_for(&key));
        let sent = event.unique(key, Unique::Keep).push().await.unwrap();
        accepted += usize::from(sent.is_accepted());
    }
    assert_eq!(accepted, 10);
}
