//! On a shared store: what others do is seen, and what they leave is taken back.

use std::time::Duration;

use duly::prelude::*;

use super::{payloads, pulling, stats};
use crate::world::{World, ms, secs};

#[tokio::test(start_paused = true)]
async fn the_leases_of_a_process_that_is_gone_are_taken_back_by_another() {
    let world = World::shared();
    let (bus, queue) = pulling(&world).await;
    let (other, elsewhere) = pulling(&world).await;
    // The other one has pulled before, and nobody waits.
    assert!(payloads(&elsewhere, 1).await.is_empty());
    bus.advance(secs(30)).await;
    queue.event(1).attempts(1).push().await.unwrap();
    let leased = queue.lease(1, secs(5)).send().await.unwrap();
    drop((leased, queue));
    drop(bus);
    other.advance(ms(4_999)).await;
    assert_eq!(stats(&other, "orders").await.leased, 1);
    other.advance(ms(101)).await;
    let stats = stats(&other, "orders").await;
    assert_eq!((stats.leased, stats.dead), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn of_several_processes_each_event_goes_to_one() {
    let world = World::shared();
    let (bus, queue) = pulling(&world).await;
    let (_other, elsewhere) = pulling(&world).await;
    let waiting: Vec<_> = (0..20)
        .map(|number| match number % 2 {
            0 => tokio::spawn(queue.lease(1, secs(60)).wait(secs(100)).send()),
            _ => tokio::spawn(elsewhere.lease(1, secs(60)).wait(secs(100)).send()),
        })
        .collect();
    bus.settle().await;
    queue.push_many(0..20, Duration::ZERO).await.unwrap();
    let mut all = Vec::new();
    for it in waiting {
        all.push(it.await.unwrap().unwrap()[0].event().payload);
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..20));
    assert!(bus.clock().elapsed() < ms(1), "nobody waited for a poll");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_another_process_adds_is_found() {
    let world = World::shared();
    let (bus, queue) = pulling(&world).await;
    let waiting = tokio::spawn(queue.lease(1, secs(60)).wait(secs(100)).send());
    bus.settle().await;
    let many = QueueChoices {
        buckets: Some(1_024),
        ..QueueChoices::default()
    };
    let builder = world.builder().publish_only().queue("orders", many);
    let other = world.start(builder).await;
    let wide = other.queue_named::<u64>("orders").unwrap();
    let id = EventId::from_parts(other.now(), duly::event::BucketId(1_000), 7);
    wide.event(1).id(id).push().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap()[0].id(), id);
}
