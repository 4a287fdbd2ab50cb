//! What a push is made of: the store's time, its durability, and the bucket it goes to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use duly::config::QueueChoices;
use duly::prelude::*;
use duly::store::Durability;
use duly::testing::{Probe, TestBus};
use futures_util::future::join_all;

use crate::faulty::Faulty;
use crate::world::{ORDERS, World, secs};

over_every_store! {
    pushes_that_are_made_at_once_meet_in_few_buckets,
    a_push_that_asks_for_more_than_the_store_can_is_refused,
    a_receipt_names_what_was_reached,
    a_hot_bucket_is_seen,
    a_bus_that_does_not_handle_pushes_as_its_annotations_say,
    many_events_are_pushed_each_with_all_it_can_say,
    a_push_of_many_events_refuses_what_it_cannot_push_before_it_begins,
}

async fn pushes_that_are_made_at_once_meet_in_few_buckets(world: World) {
    let (_bus, queue) = world.push_only::<u64>("orders").await;
    let sent = join_all((0..64).map(|number| queue.push(number, secs(60)))).await;
    let mut buckets: Vec<_> = sent
        .into_iter()
        .map(|sent| sent.unwrap().id().bucket())
        .collect();
    buckets.dedup();
    assert!(buckets.len() <= 2, "{buckets:?}");
}

async fn a_push_that_asks_for_more_than_the_store_can_is_refused(world: World) {
    let (_bus, queue) = world.push_only::<u64>("orders").await;
    let sent = queue.event(1).durable(Durability::Replicated(2)).push();
    let error = sent.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let builder = world.builder().publish_only();
    let builder = builder.durability(Durability::Replicated(1));
    let error = TestBus::start_on(Arc::clone(&world.clock), builder).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    // One event may ask for less than its bus does.
    let sent = queue.event(1).durable(Durability::Memory).push();
    assert!(sent.await.unwrap().is_accepted());
}

async fn a_receipt_names_what_was_reached(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let sent = queue.event(1).durable(Durability::Memory).push().await;
    assert_eq!(sent.unwrap().durability(), bus.durability());
}

async fn a_hot_bucket_is_seen(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    assert_eq!(bus.bucket_stats("nobody").await.unwrap(), []);
    let mut hot = None;
    for number in 0..100 {
        let event = queue.event(number).after(secs(60)).key("customer:8");
        hot = Some(event.push().await.unwrap().id().bucket());
    }
    let others = queue.push_many(0..1_000, secs(60)).await.unwrap();
    let stats = bus.bucket_stats("orders").await.unwrap();
    assert!(stats.is_sorted_by_key(|(bucket, _)| *bucket));
    assert_eq!(stats.len(), 8);
    for (bucket, stats) in &stats {
        let pushed = others.iter().filter(|sent| sent.id().bucket() == *bucket);
        let keyed = if hot == Some(*bucket) { 100 } else { 0 };
        assert_eq!(stats.scheduled, pushed.count() + keyed);
    }
    let hottest = stats.iter().max_by_key(|(_, stats)| stats.scheduled);
    assert_eq!(hottest.map(|(bucket, _)| *bucket), hot);
    let sum: usize = stats.iter().map(|(_, stats)| stats.scheduled).sum();
    assert_eq!(sum, bus.stats("orders").await.unwrap().scheduled);
}

#[delay_event(queue = "wide", buckets = 32, attempts = 7, register = false)]
struct Wide;

impl Handler for Wide {
    type Payload = u64;

    async fn handle(&self, event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        Err(Failure::permanent(format!("nobody handles {}", event.id())))
    }
}

async fn a_bus_that_does_not_handle_pushes_as_its_annotations_say(world: World) {
    let silent = QueueChoices {
        consume: Some(false),
        ..QueueChoices::default()
    };
    let builder = || world.builder().register(Wide);
    let unknown = || world.builder().publish_only();
    for builder in [
        builder().publish_only(),
        builder().queue("wide", silent.clone()),
        unknown(),
        unknown().queue("wide", silent),
    ] {
        let bus = world.start(builder).await;
        let queue = bus.queue::<Wide>();
        let ids = std::iter::repeat_with(|| queue.new_id()).take(32 * 64);
        let buckets: BTreeSet<_> = ids.map(|id| id.bucket()).collect();
        assert_eq!(buckets.len(), 32);
        let id = queue.push(1, When::Now).await.unwrap().id();
        let found = queue.get(id).await.unwrap().unwrap();
        assert_eq!(found.body.unwrap().attempts, 7);
        bus.settle().await;
        assert_eq!(bus.stats("wide").await.unwrap().dead, 0);
    }
}

/// Ids are made from the store's time, and one that was made from a wrong idea of it is made anew.
#[tokio::test(start_paused = true)]
async fn a_pusher_whose_idea_of_the_time_is_wrong_harms_nobody() {
    let world = World::memory_of_ten();
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS.buckets(1), &probe).await;
    bus.advance(secs(7_200)).await;
    queue.push_many(0..100, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;

    let way = Faulty::to(&world.store);
    way.behind_us.store(3_600_000_000, Ordering::Relaxed);
    let choices = QueueChoices {
        buckets: Some(1),
        ..QueueChoices::default()
    };
    let builder = Bus::builder().publish_only().queue("orders", choices);
    let wrong = world.start(builder.shared_store(way)).await;
    let queue = wrong.queue_named::<u64>("orders").unwrap();
    assert!(queue.push(100, secs(0)).await.unwrap().is_accepted());
    let sent = queue.push_many(101..108, secs(0)).await.unwrap();
    assert!(sent.iter().all(Receipt::is_accepted));
    let old = queue.new_id();
    let old = EventId::from_parts(old.created(), duly::event::BucketId(0), old.entropy());
    let error = queue.event(1).id(old).push().await.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Conflict,
        "an id that was given is a promise"
    );
    bus.settle().await;
    assert_eq!(probe.count(), 108);
}

async fn many_events_are_pushed_each_with_all_it_can_say(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let ids: Vec<EventId> = (0..1_500)
        .map(|n| queue.id_for_name(&format!("n{n}")))
        .collect();
    let event = |number: u64| {
        let event = queue.event(number).after(secs(1 + number % 3));
        let event = event.key(format!("customer:{}", number % 7));
        let id = ids[number as usize];
        match number % 3 {
            0 => event.id(id),
            1 => event.unique(format!("u{}", number % 10), Unique::Keep),
            _ => event.id(id).header("n", number.to_string()),
        }
    };
    let sent = queue
        .push_many((0..1_500).map(event), When::Now)
        .await
        .unwrap();
    for (number, receipt) in sent.iter().enumerate() {
        match number % 3 {
            1 => assert_eq!(receipt.is_accepted(), number < 30, "{number}"),
            _ => assert!(receipt.is_accepted() && receipt.id() == ids[number]),
        }
    }
    let again = queue
        .push_many((0..1_500).map(event), When::Now)
        .await
        .unwrap();
    assert!(again.iter().all(Receipt::is_duplicate));
    let found = queue.events().key("customer:0").limit(1_000).page().await;
    let of_key = (0..1_500).filter(|number| number % 7 == 0 && (number % 3 != 1 || *number < 30));
    assert_eq!(found.unwrap().items.len(), of_key.count());
    bus.advance(secs(60)).await;
    let handled: BTreeSet<u64> = probe.payloads().into_iter().collect();
    assert_eq!(handled.len(), 1_010);
    assert_eq!(probe.count(), 1_010, "each once");

    let mut wrong = vec![queue.event(1), queue.event(99).id(ids[0])];
    wrong.push(queue.event(2));
    let conflict = queue.push_many(wrong, When::Now).await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict);
}

async fn a_push_of_many_events_refuses_what_it_cannot_push_before_it_begins(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let others = bus.queue_named::<u64>("mail").unwrap();
    let long = "k".repeat(2_000);
    for wrong in [others.event(2), queue.event(2).key(long)] {
        let refused = queue.push_many([queue.event(1), wrong], When::Now).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(queue.push_many([0_u64; 0], When::Now).await.unwrap(), []);
    assert_eq!(bus.stats("orders").await.unwrap().ready, 0);
}
