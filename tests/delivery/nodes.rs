//! Several nodes on one store: who looks where, and what that costs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duly::Annotation;
use duly::config::{NodeOptions, QueueChoices};
use duly::prelude::*;
use duly::testing::{Probe, TestBus};

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

/// Ten queues of eight buckets.
const QUEUES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// A bus with the times that a program has, on its own way to the store.
pub(crate) async fn node(
    world: &World,
    queues: &[Annotation],
    probe: &Probe<u64>,
) -> (TestBus, Arc<Faulty>) {
    let way = Faulty::to(&world.store);
    let mut builder = Bus::builder()
        .only_registered()
        .node_options(NodeOptions::default())
        .shared_store(Arc::clone(&way) as _);
    for queue in queues {
        builder = builder.register_as(*queue, probe.clone());
    }
    (world.start(builder).await, way)
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_asks_the_store_at_most_twenty_times_a_second() {
    let world = World::shared();
    let queues = QUEUES.map(Annotation::new);
    let probe = Probe::new();
    let (bus, way) = node(&world, &queues, &probe).await;
    let (_other, _way) = node(&world, &queues, &probe).await;
    for queue in QUEUES {
        let queue = bus.queue_named::<u64>(queue).unwrap();
        queue.push_many(0..1_000, secs(86_400)).await.unwrap();
    }
    bus.advance(secs(60)).await;
    for _ in 0..10 {
        let before = way.asked();
        bus.advance(secs(60)).await;
        let asked = way.asked() - before;
        assert!(asked <= 20 * 60, "{asked} calls in a minute");
        assert!(asked >= 4 * 60, "it calls the roll");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_node_held_is_found_without_looking_everywhere_all_the_time() {
    let world = World::shared();
    let probe = Probe::new();
    let hanging = Probe::<u64>::running(|_event, _cx| std::future::pending());
    let (dying, _) = node(&world, &[ORDERS.workers(64)], &hanging).await;
    let queue = dying.queue_named::<u64>("orders").unwrap();
    queue.push_many(0..640, secs(0)).await.unwrap();
    dying.advance(secs(5)).await;
    assert_eq!(hanging.count(), 64);
    let (bus, _way) = node(&world, &[ORDERS], &probe).await;
    bus.advance(secs(20)).await;
    let took = probe.count();

    drop((dying, queue));
    let died = world.clock.elapsed();
    bus.advance(secs(3)).await;
    assert_eq!(probe.count() - took, 640 - took, "all of it within 3 s");
    assert!(*probe.times().last().unwrap() - died <= secs(3));
}

/// A holder that is on no roll: the glance at every bucket is the net.
#[tokio::test(start_paused = true)]
async fn what_a_node_holds_that_nobody_has_heard_of_is_found_all_the_same() {
    let world = World::shared();
    let hanging = Probe::<u64>::running(|_event, _cx| std::future::pending());
    let (unheard, way) = node(&world, &[ORDERS], &hanging).await;
    let probe = Probe::new();
    let (bus, _way) = node(&world, &[ORDERS], &probe).await;
    bus.set_workers("orders", 0).unwrap();
    way.rolls_are(Fault::Hung);
    bus.advance(secs(120)).await; // it was taken off the roll
    let queue = unheard.queue_named::<u64>("orders").unwrap();
    queue.push_many(0..8, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(hanging.count(), 8, "it works as before");
    bus.set_workers("orders", 16).unwrap();
    drop((unheard, queue));
    bus.advance(secs(34)).await;
    assert_eq!(probe.count(), 8);
}

/// Its heartbeats keep what it holds, whatever the roll says.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_cut_off_from_the_roll_alone_loses_nothing() {
    let world = World::shared();
    let slow = Probe::taking(secs(300));
    let (cut_off, way) = node(&world, &[ORDERS.timeout(secs(600))], &slow).await;
    let queue = cut_off.queue_named::<u64>("orders").unwrap();
    queue.push_many(0..16, secs(0)).await.unwrap();
    cut_off.advance(secs(1)).await;
    let probe = Probe::new();
    let (bus, _way) = node(&world, &[ORDERS], &probe).await;
    way.rolls_are(Fault::Refused(ErrorKind::Unavailable));
    bus.advance(secs(301)).await;
    assert_eq!((slow.count(), probe.count()), (16, 0));
    let lost = bus.records().outcome(Outcome::LeaseLost).page().await;
    assert_eq!(lost.unwrap().items.len(), 0);
}

/// The reverse: it says that it is there, and cannot keep what it holds.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_cut_off_from_its_buckets_alone_does_not_keep_them_from_others() {
    let world = World::shared();
    let hanging = Probe::<u64>::running(|_event, _cx| std::future::pending());
    let (cut_off, way) = node(&world, &[ORDERS], &hanging).await;
    let queue = cut_off.queue_named::<u64>("orders").unwrap();
    queue.push_many(0..8, secs(0)).await.unwrap();
    cut_off.advance(secs(1)).await;
    let probe = Probe::new();
    let (bus, _way) = node(&world, &[ORDERS], &probe).await;
    way.meets(|_, _| Fault::Hung);
    bus.advance(secs(5)).await;
    assert_eq!(probe.count(), 8);
}

#[tokio::test(start_paused = true)]
async fn each_event_starts_once_and_on_time_however_many_nodes_there_are() {
    let world = World::shared();
    let probe = Probe::new();
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(node(&world, &[ORDERS], &probe).await);
    }
    let bus = &nodes[0].0;
    bus.advance(secs(1)).await; // all have heard of all
    let began = world.clock.elapsed();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    for number in 0..400_u64 {
        queue.push(number, ms(number * 10)).await.unwrap();
    }
    bus.advance(secs(10)).await;
    let mut seen = probe.seen();
    seen.sort_unstable_by_key(|seen| seen.payload);
    assert_eq!(seen.len(), 400);
    for (number, seen) in (0..).zip(&seen) {
        assert_eq!(seen.payload, number);
        // The virtual timer has whole milliseconds.
        let late = seen.at - began - ms(number * 10);
        assert!(late <= ms(1), "event {number} is {late:?} late");
    }
}

/// It is counted for a second and a half more; others look at its buckets a little later.
#[tokio::test(start_paused = true)]
async fn a_dead_owner_delays_nobody_for_long() {
    let world = World::shared();
    let probe = Probe::new();
    let (dying, _) = node(&world, &[ORDERS], &probe).await;
    let (bus, _way) = node(&world, &[ORDERS], &probe).await;
    bus.advance(secs(1)).await;
    drop(dying);
    let began = world.clock.elapsed();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    for number in 0..512 {
        queue.push(number, When::Now).await.unwrap();
    }
    bus.advance(secs(1)).await;
    let times = probe.times();
    assert_eq!(times.len(), 512);
    let latest = *times.last().unwrap() - began;
    assert!(latest <= ms(150), "{latest:?}");
    bus.advance(secs(2)).await;
    let began = world.clock.elapsed();
    queue.push_many(0..512, secs(0)).await.unwrap();
    bus.settle().await;
    assert_eq!(
        *probe.times().last().unwrap(),
        began,
        "all of it is its own"
    );
}

#[tokio::test(start_paused = true)]
async fn an_owner_without_room_delays_nobody_for_long() {
    let world = World::shared();
    let probe = Probe::new();
    let (full, _) = node(&world, &[ORDERS], &probe).await;
    full.set_workers("orders", 0).unwrap();
    let (bus, _way) = node(&world, &[ORDERS], &probe).await;
    bus.advance(secs(5)).await;
    let began = world.clock.elapsed();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    for number in 0..512 {
        queue.push(number, ms(500)).await.unwrap();
    }
    bus.advance(secs(2)).await;
    let times = probe.times();
    assert_eq!(times.len(), 512);
    let latest = *times.last().unwrap() - began;
    assert!(latest <= ms(650), "{latest:?}");
}

/// A bus that only pushes, over more buckets than those who consume know of.
async fn wide(world: &World) -> (TestBus, Queue<u64>) {
    let choices = QueueChoices {
        buckets: Some(64),
        ..QueueChoices::default()
    };
    let builder = world.builder().publish_only().queue("orders", choices);
    let bus = world.start(builder).await;
    let queue = bus.queue_named("orders").unwrap();
    (bus, queue)
}

async fn a_bucket_that_comes_while_a_node_runs_is_served_at_once(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    let (_pusher, queue) = wide(&world).await;
    let began = world.clock.elapsed();
    queue.push_many(0..4_096, ms(40)).await.unwrap();
    bus.advance(ms(40)).await;
    let seen = probe.seen();
    assert_eq!(seen.len(), 4_096);
    assert!(seen.iter().all(|seen| seen.at == began + ms(40)));
    let buckets = seen.iter().map(|seen| seen.id.bucket());
    assert!(buckets.max().unwrap().0 >= 32);
}

over_every_store! {
    a_bucket_that_comes_while_a_node_runs_is_served_at_once,
}

/// Where the store's word is lost, the roll tells.
#[tokio::test(start_paused = true)]
async fn a_new_bucket_is_served_soon_even_if_its_wake_up_is_lost() {
    let world = World::shared();
    let probe = Probe::<u64>::new();
    let way = Faulty::to(&world.store);
    way.is_deaf.store(true, Ordering::Relaxed);
    let (bus, _queue) = world.serve_by(way, ORDERS, &probe).await;
    let (_pusher, queue) = wide(&world).await;
    let id = queue.new_id();
    let far = EventId::from_parts(id.created(), duly::event::BucketId(63), id.entropy());
    queue.event(1).id(far).push().await.unwrap();
    bus.advance(ms(300)).await;
    assert_eq!(probe.payloads(), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_is_no_member_any_more() {
    let world = World::shared();
    let probe = Probe::new();
    let (bus, _way) = node(&world, &[ORDERS], &probe).await;
    let (other, _) = node(&world, &[ORDERS], &probe).await;
    other.shutdown(Duration::from_secs(1)).await.unwrap();
    bus.advance(ms(300)).await;
    let began = world.clock.elapsed();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    queue.push_many(0..1_024, secs(0)).await.unwrap();
    bus.settle().await;
    assert_eq!(probe.count(), 1_024);
    assert!(probe.times().iter().all(|time| *time == began));
}

/// Of a file there is one store in a process, so its buses share it.
#[tokio::test(start_paused = true)]
async fn a_bus_that_stops_leaves_a_store_that_it_shares_to_the_others() {
    for world in [World::shared(), World::embedded()] {
        let probe = Probe::new();
        let (bus, queue) = world.serve(ORDERS, &probe).await;
        let (other, mails) = world.push_only::<u64>("mails").await;
        other.shutdown(secs(1)).await.unwrap();
        let refused = mails.push(1, When::Now).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed);
        queue.push(1, When::Now).await.unwrap();
        bus.advance(secs(1)).await;
        assert_eq!(probe.count(), 1);
        bus.shutdown(secs(1)).await.unwrap();
        world.store.close().await.unwrap();
    }
}
