//! Promise 7: one queue never delays another.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use duly::Annotation;
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::testing::{Probe, TestBus};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_hung_queue_delays_no_other,
    a_failing_queue_delays_no_other,
    a_paused_queue_delays_no_other,
    a_bucket_that_does_not_answer_leaves_room_to_the_others,
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

/// A fetch that is not answered keeps what it asked for; it asks for a part of its queue's room.
async fn a_bucket_that_does_not_answer_leaves_room_to_the_others(world: World) {
    let way = Faulty::to(&world.store);
    let probe = Probe::new();
    let orders = ORDERS.buckets(2).ring(64).workers(2);
    let (bus, queue) = world.serve_by(Arc::clone(&way) as _, orders, &probe).await;
    // Both have been looked at, and all the room is free.
    way.meets(|bucket, op| match op {
        StoreOp::Fetch(_) if bucket.bucket == duly::event::BucketId(0) => Fault::Hung,
        _ => Fault::None,
    });
    for number in 0..20_u64 {
        for bucket in [0, 1] {
            let id = EventId::from_parts(bus.now(), duly::event::BucketId(bucket), number);
            queue.event(number).id(id).push().await.unwrap();
            bus.advance(ms(100)).await;
        }
    }
    let expected: Vec<_> = (0..20).collect();
    assert_eq!(probe.payloads(), expected);
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

/// On real time, where the mover has a thread that it could hold up.
#[tokio::test]
async fn a_ring_that_publishers_have_filled_delays_no_other_queue() {
    let hung = Probe::<u64>::running(|_event, _cx| std::future::pending());
    let probe = Probe::<u64>::new();
    let builder = Bus::builder().only_registered().store_url("memory:");
    let builder = builder.register_as(BESIDE, hung.clone());
    let builder = builder.register_as(ORDERS, probe.clone());
    let bus = builder.start().await.unwrap();
    let beside = bus.queue_named("beside").unwrap();
    for _ in 0..100 {
        // Its workers take what is there before they hang; after that nobody does.
        while beside.try_publish(0_u64).is_ok() {}
        tokio::task::yield_now().await;
    }
    assert_eq!(hung.running_now(), 2);
    beside.push_many(0..64, secs(0)).await.unwrap();
    let queue = bus.queue_named("orders").unwrap();
    let began = tokio::time::Instant::now();
    for number in 0..100 {
        queue.push(number, When::Now).await.unwrap();
    }
    while probe.count() < 100 {
        assert!(began.elapsed() < secs(10), "the other queue stands still");
        tokio::task::yield_now().await;
    }
}

/// Blocks its thread until it hears a word, and says whether it did.
#[delay_event(queue = "listens", blocking, register = false)]
struct Listens {
    says: UnboundedSender<Option<bool>>,
    word: Mutex<Receiver<()>>,
}

impl BlockingHandler for Listens {
    type Payload = u64;

    fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        let _ = self.says.send(None);
        let heard = self.word.lock().unwrap().recv_timeout(secs(10)).is_ok();
        let _ = self.says.send(Some(heard));
        Ok(())
    }
}

/// On a runtime with one thread, which the other handler needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_handler_that_blocks_its_thread_delays_no_other_queue() {
    let (says, mut said) = unbounded_channel();
    let (speak, word) = channel();
    let word = Mutex::new(word);
    let speaks = Probe::<u64>::answering(move |_event, _cx| {
        speak.send(()).map_err(|_gone| Failure::retry("too late"))
    });
    let builder = Bus::builder().only_registered().store_url("memory:");
    let builder = builder.register_blocking(Listens { says, word });
    let bus = builder.register_as(ORDERS, speaks).start().await.unwrap();
    let listens = bus.queue_named("listens").unwrap();
    listens.push(1_u64, When::Now).await.unwrap();
    assert_eq!(said.recv().await, Some(None), "it runs");
    let orders = bus.queue_named("orders").unwrap();
    orders.push(1_u64, When::Now).await.unwrap();
    assert_eq!(said.recv().await, Some(Some(true)), "it heard nothing");
}
