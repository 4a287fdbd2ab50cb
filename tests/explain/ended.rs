//! Dead letters, events that are over, and ids that nobody knows.

use duly::event::{BucketId, State as EventState};
use duly::explain::Reason;
use duly::prelude::*;
use duly::records::Cause;
use duly::testing::Probe;
use duly::time::Timestamp;

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_dead_letter_says_since_when_why_and_what_to_do,
    an_event_that_is_over_says_how_it_ended_and_when,
    an_id_that_nobody_knows_says_what_is_in_it,
    an_id_of_the_future_is_called_so,
    a_bus_that_was_shut_down_explains_nothing,
}

async fn a_dead_letter_says_since_when_why_and_what_to_do(world: World) {
    let probe = Probe::<u64>::answering(|_, _| Err(Failure::retry("no such order")));
    let (bus, queue) = world.serve(ORDERS.attempts(3), &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(100)).await;
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.state, Some(EventState::Dead));
    assert_eq!(explained.at.since(explained.since.unwrap()), secs(98));
    let reason = Reason::Dead {
        cause: Some(Cause::Failed),
        error: Some("no such order".to_owned()),
    };
    assert_eq!(explained.reasons, [reason]);
    let advice = explained.advice().join(" ");
    for what in ["revive", "edit", "drop", "orders"] {
        assert!(advice.contains(what), "{advice}");
    }
}

async fn an_event_that_is_over_says_how_it_ended_and_when(world: World) {
    let probe = Probe::<u64>::answering(|event, _cx| match event.payload {
        1 => Ok(()),
        2 => Err(Failure::discard("of no use")),
        _ => Err(Failure::permanent("no")),
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let done = queue.push(1, When::Now).await.unwrap().id();
    let discarded = queue.push(2, When::Now).await.unwrap().id();
    let dropped = queue.push(3, When::Now).await.unwrap().id();
    let cancelled = queue.push(4, secs(60)).await.unwrap().id();
    bus.advance(secs(10)).await;
    let _ = queue.cancel(cancelled).await.unwrap();
    assert_eq!(bus.dead_letters().drop([dropped]).await.unwrap().done, 1);
    bus.advance(secs(10)).await;
    for (id, state, ago) in [
        (done, EventState::Done, 20),
        (discarded, EventState::Discarded, 20),
        (dropped, EventState::Cancelled, 10),
        (cancelled, EventState::Cancelled, 10),
    ] {
        let explained = bus.explain(id).await.unwrap();
        assert_eq!(explained.state, Some(state));
        let at = Some(bus.now() - secs(ago));
        assert_eq!(explained.reasons, [Reason::Over { state, at }]);
        assert!(explained.advice().is_empty());
        assert!(explained.to_string().contains("it is over"), "{explained}");
    }
    let words = bus.explain(dropped).await.unwrap().to_string();
    assert!(words.contains("  dropped"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_forgotten_is_told_of_by_its_records() {
    let world = World::memory_of_ten();
    let (bus, queue) = world.serve(ORDERS.buckets(1), &Probe::<u64>::new()).await;
    let sent = queue.push_many(0..100, secs(0)).await.unwrap();
    bus.advance(secs(30)).await;
    let id = sent[0].id();
    assert_eq!(queue.get(id).await.unwrap(), None);
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.queue.as_ref().unwrap().as_str(), "orders");
    assert!(matches!(
        explained.reasons[..],
        [Reason::Over {
            state: EventState::Done,
            at: Some(_)
        }]
    ));
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_id_had_one_before_is_not_over_with_that_one() {
    let world = World::memory_of_ten();
    let (bus, queue) = world.serve(ORDERS.buckets(1), &Probe::<u64>::new()).await;
    let id = queue.id_for_name("order:7:remind");
    queue.event(7).id(id).push().await.unwrap();
    queue.push_many(0..100, secs(1)).await.unwrap();
    bus.advance(secs(120)).await;
    let again = queue.event(8).id(id).after(secs(3_600)).push();
    assert!(!again.await.unwrap().is_duplicate());
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.state, Some(EventState::Scheduled));
    assert!(
        matches!(explained.reasons[..], [Reason::NotDue { .. }]),
        "{explained}"
    );
    bus.advance(secs(3_600)).await;
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.state, Some(EventState::Done));
}

async fn an_id_that_nobody_knows_says_what_is_in_it(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let sent = queue.push_many(0..100, secs(60)).await.unwrap();
    bus.advance(ms(1_500)).await;
    let bucket = sent[0].id().bucket();
    let created = bus.now() - ms(700);
    let id = EventId::from_parts(created, bucket, 77);
    let explained = bus.explain(id).await.unwrap();
    assert_eq!((explained.state, explained.queue), (None, None));
    let not_known = Reason::NotKnown {
        created,
        is_of_the_future: false,
        bucket,
        queues: 1,
    };
    assert_eq!(explained.reasons, [not_known]);

    let elsewhere = EventId::from_parts(created, BucketId(1_023), 77);
    let explained = bus.explain(elsewhere).await.unwrap();
    let words = explained.to_string();
    assert!(words.contains("in which it may lie"), "{words}");
    assert!(words.contains(&created.to_string()), "{words}");
}

async fn an_id_of_the_future_is_called_so(world: World) {
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    let created = bus.now() + secs(86_400);
    let id = EventId::from_parts(created, BucketId(0), 1);
    let explained = bus.explain(id).await.unwrap();
    assert!(matches!(
        explained.reasons[..],
        [Reason::NotKnown {
            is_of_the_future: true,
            ..
        }]
    ));
    // Also from a task of its own.
    let id = EventId::from_parts(Timestamp::EPOCH, BucketId(0), 0);
    let bus = (*bus).clone();
    let explained = tokio::spawn(async move { bus.explain(id).await });
    assert!(explained.await.unwrap().unwrap().state.is_none());
}

async fn a_bus_that_was_shut_down_explains_nothing(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    let id = queue.push(1, secs(60)).await.unwrap().id();
    bus.shutdown(secs(1)).await.unwrap();
    let error = bus.explain(id).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}
