//! The lists of the buckets of queues that are pulled from for the first time.

use std::sync::Arc;

use duly::config::QueueChoices;
use duly::event::BucketId;
use duly::lease::{EncodedPayload, Leased};
use duly::prelude::*;
use duly::store::Store;
use duly::testing::TestBus;
use duly::{EventId, QueueName};
use tokio::time::Instant;

use crate::faulty::{Fault, Faulty};
use crate::world::{World, ms, secs};

/// A bucket that only the pushing process knows.
const HIGH: u16 = 12;

fn names(many: usize) -> Vec<QueueName> {
    let name = |number| format!("q-{number}").parse().unwrap();
    (0..many).map(name).collect()
}

/// A process whose queues have sixteen buckets, on the same store.
async fn wider(world: &World, queues: &[QueueName]) -> TestBus {
    let sixteen = QueueChoices {
        buckets: Some(16),
        ..QueueChoices::default()
    };
    let builder = queues.iter().fold(world.builder(), |builder, queue| {
        builder.queue(queue.as_str(), sixteen.clone())
    });
    world.start(builder.publish_only()).await
}

/// Pushes an event to a bucket beyond those of a process that pulls.
async fn push_high(bus: &TestBus, queue: &QueueName, number: usize) {
    let id = EventId::from_parts(bus.now(), BucketId(HIGH), number as u64);
    let queue = bus.queue_named::<usize>(queue.as_str()).unwrap();
    queue.event(number).id(id).push().await.unwrap();
}

/// A process that has pulled nothing yet, and its way to the store.
async fn fresh(world: &World) -> (TestBus, Arc<Faulty>) {
    let way = Faulty::to(&world.store);
    let builder = Bus::builder().only_registered().publish_only();
    let store = Arc::clone(&way) as Arc<dyn Store>;
    (world.start(builder.shared_store(store)).await, way)
}

#[tokio::test(start_paused = true)]
async fn however_many_queues_begin_at_once_the_buckets_of_each_are_read() {
    for many in [1, 63, 64, 65, 70, 130] {
        let (world, all) = (World::shared(), names(many));
        let pusher = wider(&world, &all).await;
        for (number, queue) in all.iter().enumerate() {
            push_high(&pusher, queue, number).await;
        }
        // By one caller.
        let (bus, way) = fresh(&world).await;
        way.rolls_are(Fault::LatePolicy(ms(3)));
        let leased = bus.lease_from(&all, 1_000, secs(60)).send().await.unwrap();
        assert_eq!(leased.len(), many);
        // By one that waits, for the first or the last of them.
        for number in [0, many - 1] {
            let (bus, way) = fresh(&world).await;
            way.rolls_are(Fault::LatePolicy(ms(3)));
            push_high(&pusher, &all[number], 2_000 + number).await;
            let since = Instant::now();
            let request = bus.lease_from(&all, 1, secs(60)).wait(secs(20));
            assert_eq!(request.send().await.unwrap().len(), 1, "{number} of {many}");
            assert!(since.elapsed() < ms(100), "it was ready");
        }
    }
}

/// Their lists come one after the other, while the first ones wait already.
#[tokio::test(start_paused = true)]
async fn however_many_callers_begin_at_once_the_buckets_of_each_are_read() {
    for many in [1, 66, 70, 200] {
        let (world, all) = (World::shared(), names(many));
        let pusher = wider(&world, &all).await;
        let (bus, way) = fresh(&world).await;
        let mut polls = Vec::new();
        for (number, queue) in all.iter().enumerate() {
            push_high(&pusher, queue, number).await;
            way.rolls_are(Fault::LatePolicy(ms(number as u64 % 50)));
            let queue = bus.queue_named::<usize>(queue.as_str()).unwrap();
            polls.push(tokio::spawn(queue.lease(1, secs(60)).wait(secs(20)).send()));
            tokio::task::yield_now().await; // it has asked for the list by then
        }
        let since = Instant::now();
        for (number, poll) in polls.into_iter().enumerate() {
            let leased = poll.await.unwrap().unwrap();
            assert_eq!(leased.len(), 1, "{number} of {many}");
        }
        assert!(since.elapsed() < ms(100), "they were ready");
    }
}

/// They are all waited for together, within the wait of the caller.
#[tokio::test(start_paused = true)]
async fn the_lists_of_many_queues_take_no_longer_than_that_of_one() {
    for many in [1, 2, 300] {
        let all = names(many);
        for (fault, listed) in [
            (Fault::Hung, secs(2)),
            (Fault::LatePolicy(ms(5)), ms(5)),
            (Fault::LatePolicy(secs(1)), secs(1)),
        ] {
            for wait in [secs(0), secs(1), secs(5)] {
                let world = World::shared();
                let (bus, way) = fresh(&world).await;
                way.rolls_are(fault);
                let (since, took) = (Instant::now(), wait.max(listed));
                let request = bus.lease_from(&all, 1, secs(60)).wait(wait);
                assert!(request.send().await.unwrap().is_empty());
                let span = since.elapsed();
                let said = (many, fault, wait);
                assert!(took <= span && span < took + ms(50), "{said:?}: {span:?}");
                // They are not waited for again.
                let since = Instant::now();
                let again = bus.lease_from(&all, 1, secs(60)).send().await;
                assert!(again.unwrap().is_empty());
                assert!(since.elapsed() < ms(50), "{said:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_lists_as_well() {
    for many in [1, 2, 100] {
        for wait in [secs(0), secs(60)] {
            let world = World::shared();
            let (bus, way) = fresh(&world).await;
            way.rolls_are(Fault::Hung);
            let request = bus.lease_from(&names(many), 1, secs(60)).wait(wait);
            let lease = tokio::spawn(request.send());
            bus.settle().await;
            let since = Instant::now();
            bus.shutdown(secs(1)).await.unwrap();
            let refused = lease.await.unwrap().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Closed);
            assert!(since.elapsed() <= secs(1), "{many} queues");
        }
    }
}

/// As many as a caller may name.
#[tokio::test(start_paused = true)]
async fn of_a_thousand_queues_the_events_come_in_their_order() {
    let (world, all) = (World::shared(), names(1_000));
    let pusher = wider(&world, &all).await;
    for (number, queue) in all.iter().enumerate().step_by(3) {
        push_high(&pusher, queue, number).await;
    }
    let (bus, _way) = fresh(&world).await;
    for max in [10, 1_000] {
        let leased = bus.lease_from(&all, max, secs(60)).send().await.unwrap();
        let number = |it: &Leased<EncodedPayload>| -> usize {
            serde_json::from_slice(&it.event().payload.bytes).unwrap()
        };
        let numbers: Vec<usize> = leased.iter().map(number).collect();
        let expected = (0..1_000).step_by(3).skip(if max == 10 { 0 } else { 10 });
        assert_eq!(numbers, expected.take(max).collect::<Vec<_>>());
    }
}
