//! Promise 7: one queue never delays another.

use duly::handler::Annotation;
use duly::prelude::*;
use duly::testing::{Probe, TestBus};

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_hung_queue_delays_no_other,
    a_failing_queue_delays_no_other,
    a_paused_queue_delays_no_other,
}

const BESIDE: Annotation = Annotation::new("beside").ring(64).workers(2);

/// A bus with a queue that handles well, and `beside` it one that does not.
async fn two_queues(world: &World, beside: &Probe<u64>) -> (TestBus, Probe<u64>) {
    let probe = Probe::new();
    let builder = world.builder().register_as(ORDERS, probe.clone());
    let builder = builder.register_as(BESIDE, beside.clone());
    (world.start(builder).await, probe)
}

/// Each event of a minute starts at its millisecond.
async fn expect_punctual(bus: &TestBus, probe: &Probe<u64>) {
    let queue = bus.queue_named("orders").unwrap();
    let began = bus.clock().elapsed();
    for number in 0..600 {
        queue.push(number, ms(number * 100)).await.unwrap();
    }
    bus.advance(secs(60)).await;
    let expected = (0..600).map(|number| began + ms(number * 100));
    assert!(probe.times().into_iter().eq(expected));
}

async fn a_hung_queue_delays_no_other(world: World) {
    let hung = Probe::running(|_event: Event<u64>, _cx| std::future::pending());
    let (bus, probe) = two_queues(&world, &hung).await;
    let beside = bus.queue_named("beside").unwrap();
    beside.push_many(0..1_000_u64, secs(0)).await.unwrap();
    bus.settle().await;
    assert_eq!(hung.running_now(), 2);
    expect_punctual(&bus, &probe).await;
}

async fn a_failing_queue_delays_no_other(world: World) {
    let failing = Probe::answering(|event: &Event<u64>, _cx| {
        assert!(event.payload.is_multiple_of(2), "every other one panics");
        Err(Failure::retry_after(ms(10), "again and again"))
    });
    let (bus, probe) = two_queues(&world, &failing).await;
    let beside = bus.queue_named("beside").unwrap();
    beside.push_many(0..20_u64, secs(0)).await.unwrap();
    expect_punctual(&bus, &probe).await;
    assert!(failing.count() > 20);
}

async fn a_paused_queue_delays_no_other(world: World) {
    let paused = Probe::new();
    let (bus, probe) = two_queues(&world, &paused).await;
    bus.set_workers("beside", 0).unwrap();
    let beside = bus.queue_named("beside").unwrap();
    beside.push_many(0..1_000_u64, secs(1)).await.unwrap();
    expect_punctual(&bus, &probe).await;
    assert_eq!(paused.count(), 0);
}
