//! `publish`: straight into the ring, and forgotten by a crash.

use std::collections::VecDeque;

use duly::prelude::*;
use duly::testing::Probe;

use crate::world::{ORDERS, World, ms, secs};

fn slow() -> Probe<u64> {
    Probe::taking(ms(10))
}

#[tokio::test(start_paused = true)]
async fn a_published_value_is_handled_once_and_no_store_knows_it() {
    let world = World::memory();
    let probe = Probe::answering(|event: &Event<u64>, _cx| {
        assert!(!event.is_delayed() && event.due().is_none());
        Err(Failure::retry("and nobody does"))
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    queue.publish(7).await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(probe.payloads(), [7]);
    assert_eq!(bus.records().page().await.unwrap().items, []);
    assert_eq!(bus.stats("orders").await.unwrap(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn a_full_ring_gives_the_value_back() {
    let world = World::memory();
    let hung = Probe::running(|_event: Event<u64>, _cx| std::future::pending());
    let (bus, queue) = world.serve(ORDERS.ring(64).workers(1), &hung).await;
    let mut published = 0;
    let (back, error) = loop {
        match queue.try_publish(published) {
            Ok(()) => published += 1,
            Err(full) => break full,
        }
        bus.settle().await;
        assert!(published < 1_000, "a ring of 64 is bounded");
    };
    assert_eq!((back, error.kind()), (published, ErrorKind::Full));
}

#[tokio::test(start_paused = true)]
async fn who_publishes_waits_for_room_and_nothing_is_lost() {
    let world = World::memory();
    let probe = slow();
    let (bus, queue) = world.serve(ORDERS.ring(64).workers(4), &probe).await;
    for number in 0..1_000 {
        queue.publish(number).await.unwrap();
    }
    bus.advance(secs(60)).await;
    let mut payloads = probe.payloads();
    payloads.sort_unstable();
    assert!(payloads.into_iter().eq(0..1_000));
    assert_eq!(probe.most_at_once(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_publisher_publishes_many_with_one_step() {
    let world = World::memory();
    let probe = slow();
    let (bus, queue) = world.serve(ORDERS.ring(64), &probe).await;
    let mut publisher = queue.publisher().unwrap();
    let mut values: VecDeque<_> = (0..200).collect();
    let mut steps = 0;
    while !values.is_empty() {
        let before = values.len();
        let published = publisher.try_publish_many(&mut values);
        assert_eq!(values.len(), before - published);
        assert!(published <= 64);
        steps += 1;
        bus.advance(ms(10)).await;
    }
    assert!(steps < 50, "{steps} steps");
    publisher.publish(200).await.unwrap();
    publisher.try_publish(201).unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(probe.count(), 202);
}

/// Both go through one ring: neither may starve the other or be lost.
#[tokio::test(start_paused = true)]
async fn pushed_and_published_values_share_a_ring() {
    let world = World::memory();
    let probe = slow();
    let (bus, queue) = world.serve(ORDERS.ring(64).workers(4), &probe).await;
    queue.push_many(0..500, secs(0)).await.unwrap();
    for number in 500..1_000 {
        queue.publish(number).await.unwrap();
    }
    bus.run_until_idle(secs(60)).await.unwrap();
    bus.advance(secs(10)).await;
    let mut payloads = probe.payloads();
    payloads.sort_unstable();
    assert!(payloads.into_iter().eq(0..1_000));
}

#[tokio::test(start_paused = true)]
async fn there_is_nowhere_to_publish_without_a_handler_for_the_value() {
    let world = World::memory();
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let error = queue.publish(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    drop((bus, queue));

    let (bus, _queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    let other = bus.queue_named::<String>("orders").unwrap();
    let error = other.publish("text".to_owned()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

/// Three of four workers may wait for room; the fourth makes some.
#[tokio::test(start_paused = true)]
async fn a_handler_that_publishes_to_its_own_queue_does_not_wait_for_itself() {
    for workers in [1, 4] {
        for many in [false, true] {
            let world = World::memory();
            let probe = Probe::running(move |event: Event<u64>, cx: &Context| {
                let queue = cx.bus().queue_named::<u64>("orders");
                async move {
                    let queue = queue?;
                    let published = match (event.payload, many) {
                        (0, _) => Ok(()),
                        (_, true) => {
                            let mut publisher = queue.publisher()?;
                            publisher
                                .publish_many(&mut (0..200).map(|_| 0).collect())
                                .await
                        }
                        (_, false) => {
                            let mut published = Ok(());
                            for _ in 0..200 {
                                published = published.and(queue.publish(0).await);
                            }
                            published
                        }
                    };
                    match published {
                        Err(error) if error.kind() == ErrorKind::Full => Ok(()),
                        published => Ok(published?),
                    }
                }
            });
            let orders = ORDERS.ring(64).workers(workers).timeout(secs(3_600));
            let (bus, queue) = world.serve(orders, &probe).await;
            let pushed = queue.push_many([1; 8], secs(0)).await.unwrap();
            bus.run_until_idle(secs(60)).await.unwrap();
            for receipt in pushed {
                let outcomes = bus.outcomes(receipt.id()).await.unwrap();
                assert_eq!(outcomes, [Outcome::Acked], "{workers} workers");
            }
            bus.advance(secs(1)).await;
            assert!(probe.count() >= 8 + 64, "{} were handled", probe.count());
            bus.shutdown(secs(1)).await.unwrap();
        }
    }
}

/// The one that runs is not replaced, and nobody else could drain the ring.
#[tokio::test(start_paused = true)]
async fn fewer_workers_leave_nobody_who_waits_for_itself() {
    for (workers, left, many) in [(2, 1, false), (2, 1, true), (4, 2, false), (4, 1, true)] {
        let world = World::memory();
        let probe = Probe::running(move |event: Event<u64>, cx: &Context| {
            let queue = cx.bus().queue_named::<u64>("orders");
            async move {
                let queue = queue?;
                match event.payload {
                    0 => return Ok(()),
                    1 => {
                        tokio::time::sleep(secs(60)).await;
                        return Ok(());
                    }
                    _ => {}
                }
                let mut values: VecDeque<_> = [0; 200].into();
                let published = if many {
                    queue.publisher()?.publish_many(&mut values).await
                } else {
                    let mut published = Ok(());
                    while published.is_ok() && values.pop_front().is_some() {
                        published = queue.publish(0).await;
                    }
                    published
                };
                if let Err(error) = published {
                    assert_eq!(error.kind(), ErrorKind::Full);
                    assert!(values.len() >= 200 - 65, "{}", values.len());
                }
                Ok(())
            }
        });
        let orders = ORDERS.ring(64).workers(workers).timeout(secs(3_600));
        let (bus, queue) = world.serve(orders, &probe).await;
        queue.push(1, When::Now).await.unwrap();
        bus.settle().await;
        let waiters = vec![2; workers - 1];
        let pushed = queue.push_many(waiters, secs(0)).await.unwrap();
        bus.advance(secs(1)).await;
        assert_eq!(probe.running_now(), workers);
        bus.set_workers("orders", left).unwrap();
        bus.advance(secs(120)).await;
        assert_eq!(probe.running_now(), 0, "{workers}, {left}");
        for receipt in pushed {
            let outcomes = bus.outcomes(receipt.id()).await.unwrap();
            assert_eq!(outcomes, [Outcome::Acked]);
        }
    }
}
