//! Who handles how much: workers, pauses, and processes that only push.

use duly::prelude::*;
use duly::testing::Probe;

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    no_more_handlers_run_at_once_than_there_are_workers,
    one_worker_handles_in_the_order_of_arrival,
    the_number_of_workers_changes_while_they_work,
    a_paused_queue_goes_on_where_it_was,
    who_only_publishes_handles_nothing,
    a_queue_that_is_not_consumed_here_waits,
    the_load_says_what_a_queue_is_doing,
}

async fn no_more_handlers_run_at_once_than_there_are_workers(world: World) {
    let probe = Probe::taking(ms(10));
    let (bus, queue) = world.serve(ORDERS.workers(7), &probe).await;
    queue.push_many(0..200_u64, secs(0)).await.unwrap();
    let took = bus.run_until_idle(secs(60)).await.unwrap();
    assert_eq!((probe.count(), probe.most_at_once()), (200, 7));
    assert!(took >= ms(290) && took <= ms(400), "{took:?}");
}

async fn one_worker_handles_in_the_order_of_arrival(world: World) {
    let probe = Probe::taking(ms(1));
    let (bus, queue) = world.serve(ORDERS.workers(1).buckets(1), &probe).await;
    for number in 0..200_u64 {
        queue.push(number, When::Now).await.unwrap();
    }
    bus.run_until_idle(secs(60)).await.unwrap();
    assert!(probe.payloads().into_iter().eq(0..200));
}

async fn the_number_of_workers_changes_while_they_work(world: World) {
    let probe = Probe::taking(secs(1));
    let (bus, queue) = world.serve(ORDERS.workers(2), &probe).await;
    queue.push_many(0..1_000_u64, secs(0)).await.unwrap();
    for workers in [2, 9, 3, 1, 30] {
        bus.set_workers("orders", workers).unwrap();
        bus.advance(ms(2_500)).await;
        assert_eq!(probe.running_now(), workers);
    }
}

async fn a_paused_queue_goes_on_where_it_was(world: World) {
    let probe = Probe::taking(secs(1));
    let (bus, queue) = world.serve(ORDERS.workers(2), &probe).await;
    queue.push_many(0..10_u64, secs(0)).await.unwrap();
    bus.advance(ms(500)).await;
    bus.set_workers("orders", 0).unwrap();
    bus.advance(secs(60)).await;
    assert_eq!((probe.count(), probe.running_now()), (2, 0));
    bus.set_workers("orders", 2).unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(probe.count(), 10);

    let error = bus.set_workers("others", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = bus.set_workers("orders", 65_537).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

async fn who_only_publishes_handles_nothing(world: World) {
    let probe = Probe::<u64>::new();
    let builder = world.builder().register_as(ORDERS, probe.clone());
    let bus = world.start(builder.publish_only()).await;
    let queue = bus.queue_named("orders").unwrap();
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(probe.count(), 0);
    assert_eq!(bus.stats("orders").await.unwrap().ready, 1);
    assert_eq!(bus.load(), []);
}

async fn a_queue_that_is_not_consumed_here_waits(world: World) {
    let probe = Probe::<u64>::new();
    let choices = QueueChoices {
        consume: Some(false),
        ..QueueChoices::default()
    };
    let builder = world.builder().register_as(ORDERS, probe.clone());
    let bus = world.start(builder.queue("orders", choices)).await;
    let queue = bus.queue_named("orders").unwrap();
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(probe.count(), 0);
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));

    let world = world.restart();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    bus.settle().await;
    assert_eq!(probe.count(), 1);
}

async fn the_load_says_what_a_queue_is_doing(world: World) {
    let probe = Probe::taking(secs(10));
    let (bus, queue) = world.serve(ORDERS.workers(3), &probe).await;
    queue.push_many(0..10_u64, secs(0)).await.unwrap();
    bus.settle().await;
    let load = &bus.load()[0];
    assert_eq!(load.queue.as_str(), "orders");
    assert_eq!((load.active, load.workers, load.queued), (3, 3, 7));
    let stats = bus.stats("orders").await.unwrap();
    assert_eq!((stats.leased, stats.ready), (10, 0));
}
