//! Waiting events are found by id, key and unique key, before their first attempt too.

use std::collections::BTreeSet;

use duly::__server::payloads;
use duly::event::State as EventState;
use duly::prelude::*;
use duly::testing::Probe;

use crate::world::{ORDERS, World, secs};

over_every_store! {
    an_event_is_found_by_its_id_alone_before_its_first_attempt,
    an_event_that_was_found_is_rescheduled_and_cancelled,
    events_of_a_key_are_listed_and_cancelled_together,
    events_of_a_key_are_found_whatever_number_of_buckets_there_was,
    an_event_is_found_and_rescheduled_by_its_unique_key,
    the_events_of_a_queue_are_read_page_by_page,
    nothing_is_done_to_a_whole_queue_by_mistake,
    what_is_over_is_known_by_its_id_and_found_by_no_key,
    keys_survive_a_restart,
}

async fn an_event_is_found_by_its_id_alone_before_its_first_attempt(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let others = bus.queue_named::<String>("mail").unwrap();
    others.push("a".to_owned(), secs(60)).await.unwrap();
    let event = queue.event(7).after(secs(60)).key("order:7");
    let event = event.unique("close:7", Unique::Keep).header("k", "v");
    let id = event.attempts(3).push().await.unwrap().id();

    let found = bus.event(id).await.unwrap().unwrap();
    assert_eq!(found.queue.as_str(), "orders");
    assert_eq!(found.state, EventState::Scheduled);
    assert_eq!((found.tries, found.tries_max), (0, Some(3)));
    assert_eq!(found.key.as_deref(), Some("order:7"));
    assert_eq!(found.unique.as_deref(), Some("close:7"));
    assert!(found.headers.contains(&("k".to_owned(), "v".to_owned())));
    assert_eq!(found.payload_as::<u64>().unwrap(), 7);
    let wrong = found.payload_as::<String>().unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Invalid);
    assert!(bus.event(queue.new_id()).await.unwrap().is_none());
}

async fn an_event_that_was_found_is_rescheduled_and_cancelled(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let sooner = queue.push(1_u64, secs(3_600)).await.unwrap().id();
    let never = queue.push(2, secs(60)).await.unwrap().id();
    let sooner = bus.event(sooner).await.unwrap().unwrap();
    assert!(matches!(
        sooner.reschedule(secs(5)).await.unwrap(),
        ChangeOutcome::Changed(_)
    ));
    let never = bus.event(never).await.unwrap().unwrap();
    assert_eq!(never.cancel().await.unwrap(), CancelOutcome::Cancelled);
    bus.advance(secs(7_200)).await;
    assert_eq!(probe.payloads(), [1]);
    assert_eq!(probe.times(), [secs(5)]);
    let late = sooner.cancel().await.unwrap();
    assert_eq!(
        late,
        CancelOutcome::TooLate(EventState::Done),
        "as it is now"
    );
}

async fn events_of_a_key_are_listed_and_cancelled_together(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let mut ids = BTreeSet::new();
    for delay in 1..=250 {
        let event = queue.event(7_u64).after(secs(delay)).key("order:7");
        ids.insert(event.push().await.unwrap().id());
    }
    queue
        .event(8)
        .after(secs(9))
        .key("order:8")
        .push()
        .await
        .unwrap();
    let (mut place, mut seen, mut pages) = (None, BTreeSet::new(), 0);
    loop {
        let events = queue.events().key("order:7").after(place).limit(100);
        let page = events.page().await.unwrap();
        assert!(page.items.len() <= 100);
        seen.extend(page.items.iter().map(|event| event.id));
        (place, pages) = (page.next, pages + 1);
        if place.is_none() {
            break;
        }
    }
    assert_eq!((&seen, pages), (&ids, 3));

    let cancelled = queue.cancel_by_key("order:7").await.unwrap();
    let told: BTreeSet<EventId> = cancelled.iter().map(|(id, _)| *id).collect();
    assert_eq!(told, ids);
    assert!(
        cancelled
            .iter()
            .all(|(_, it)| *it == CancelOutcome::Cancelled)
    );
    assert_eq!(queue.cancel_by_key("order:7").await.unwrap(), []);
    bus.advance(secs(3_600)).await;
    assert_eq!(probe.payloads(), [8]);
}

async fn events_of_a_key_are_found_whatever_number_of_buckets_there_was(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let mut ids = BTreeSet::new();
    for buckets in [1, 7, 64, 2] {
        bus.set_buckets("orders", Some(buckets)).await.unwrap();
        bus.advance(secs(2)).await; // until the bus has heard of it
        for key in ["order:7", "order:8", "order:9"] {
            let sent = queue.event(7).after(secs(600)).key(key).push();
            let id = sent.await.unwrap().id();
            if key == "order:7" {
                ids.insert(id);
            }
        }
    }
    let buckets: BTreeSet<_> = ids.iter().map(|id| id.bucket()).collect();
    assert!(buckets.len() > 1, "{buckets:?}");
    // One that its pusher has put elsewhere.
    let elsewhere = EventId::from_parts(queue.new_id().created(), duly::event::BucketId(40), 1);
    let event = queue.event(7).id(elsewhere).after(secs(600)).key("order:7");
    event.push().await.unwrap();
    ids.insert(elsewhere);
    let page = bus.events().key("order:7").page().await.unwrap();
    let found: BTreeSet<_> = page.items.iter().map(|event| event.id).collect();
    assert_eq!((found, page.next), (ids, None));
}

async fn an_event_is_found_and_rescheduled_by_its_unique_key(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let event = queue.event(7_u64).after(secs(600));
    let id = event
        .unique("close:7", Unique::Keep)
        .push()
        .await
        .unwrap()
        .id();
    let page = queue.events().unique("close:7").page().await.unwrap();
    assert_eq!(page.items[0].id, id);
    let told = queue.events().unique("close:7").reschedule(secs(5)).await;
    assert!(matches!(told.unwrap()[..], [(it, ChangeOutcome::Changed(_))] if it == id));
    bus.advance(secs(10)).await;
    assert_eq!(probe.times(), [secs(5)]);
    let none = queue.events().unique("close:7").cancel().await.unwrap();
    assert_eq!(none, []);
}

async fn the_events_of_a_queue_are_read_page_by_page(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let others = bus.queue_named::<u64>("mail").unwrap();
    others.push_many(0..10, secs(60)).await.unwrap();
    let mut scheduled = BTreeSet::new();
    for sent in queue.push_many(0..300, secs(60)).await.unwrap() {
        scheduled.insert(sent.id());
    }
    let ready = queue.push(300, When::Now).await.unwrap().id();
    for state in [Some(EventState::Scheduled), Some(EventState::Ready), None] {
        let (mut place, mut seen) = (None, BTreeSet::new());
        loop {
            let mut events = bus.events().queue("orders").after(place).limit(20);
            if let Some(state) = state {
                events = events.state(state);
            }
            let page = events.page().await.unwrap();
            seen.extend(page.items.iter().map(|event| event.id));
            place = page.next;
            if place.is_none() {
                break;
            }
        }
        let mut expected = scheduled.clone();
        match state {
            None => drop(expected.insert(ready)),
            Some(EventState::Ready) => expected = [ready].into(),
            _ => {}
        }
        assert_eq!(seen, expected, "{state:?}");
    }
}

async fn nothing_is_done_to_a_whole_queue_by_mistake(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    queue.push(7, secs(60)).await.unwrap();
    let refused = queue.events().cancel().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let refused = queue.events().key("k").unique("u").page().await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    let refused = bus.events().queue("no name").page().await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(bus.stats("orders").await.unwrap().scheduled, 1);
}

async fn what_is_over_is_known_by_its_id_and_found_by_no_key(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.event(7_u64).key("order:7").push().await.unwrap().id();
    bus.advance(secs(1)).await;
    assert_eq!(probe.count(), 1);
    let found = bus.event(id).await.unwrap().unwrap();
    assert_eq!(
        (found.state, found.payload.is_some()),
        (EventState::Done, false)
    );
    let none = found.payload_as::<u64>().unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
    let page = bus.events().key("order:7").page().await.unwrap();
    assert!(page.items.is_empty() && page.next.is_none());
}

async fn keys_survive_a_restart(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let event = queue.event(7).after(secs(600)).key("order:7");
    let id = event.push().await.unwrap().id();
    bus.shutdown(secs(1)).await.unwrap();
    let world = world.restart();
    let (bus, queue) = world.push_only::<u64>("orders").await;
    // What a program asks in a task of its own.
    let asked = tokio::spawn(async move { queue.cancel_by_key("order:7").await });
    assert_eq!(
        asked.await.unwrap().unwrap(),
        [(id, CancelOutcome::Cancelled)]
    );
    assert!(bus.events().page().await.unwrap().items.is_empty());
}

/// More than one page, one batch, or any other bound.
#[tokio::test(start_paused = true)]
async fn cancel_by_key_covers_every_event_of_a_key() {
    let world = World::memory();
    let (bus, queue) = world.push_only::<u64>("orders").await;
    for _ in 0..3 {
        let events = (0..3_500).map(|order| queue.event(order).after(secs(600)).key("shop:7"));
        queue.push_many(events, When::Now).await.unwrap();
    }
    let cancelled = queue.cancel_by_key("shop:7").await.unwrap();
    assert_eq!(cancelled.len(), 10_500);
    assert_eq!(bus.stats("orders").await.unwrap().scheduled, 0);
}

#[tokio::test]
async fn a_page_ends_after_16_mib_of_payloads_or_has_none() {
    const LARGE: usize = 40;
    let builder = Bus::builder().store_url("memory:").only_registered();
    let builder = builder.settings(Default::default()).publish_only();
    let bus = builder.start().await.unwrap();
    let queue = bus.queue_named::<String>("orders").unwrap();
    for number in 0..LARGE {
        let event = queue
            .event(format!("{number}{}", "x".repeat(1_000_000)))
            .after(secs(600));
        event.key("customer:8").push().await.unwrap();
    }
    for events in [queue.events(), bus.events().key("customer:8")] {
        let events = events.limit(1_000);
        let (mut seen, mut place) = (BTreeSet::new(), None);
        loop {
            let page = events.clone().after(place).page().await.unwrap();
            let many = page.items.len();
            assert!(many <= 22, "{many}");
            assert!(page.items.iter().all(|event| event.payload.is_some()));
            seen.extend(page.items.iter().map(|event| event.id));
            place = page.next;
            if place.is_none() {
                break;
            }
        }
        assert_eq!(seen.len(), LARGE);
    }
    let events = payloads::without_payloads(queue.events().limit(1_000));
    let page = events.page().await.unwrap();
    assert_eq!((page.items.len(), page.next), (LARGE, None));
    assert!(page.items.iter().all(|event| event.payload.is_none()));
}
