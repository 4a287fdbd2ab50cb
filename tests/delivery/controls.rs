//! What is set of a queue while it runs: once, for every node, and kept.

use std::sync::Arc;

use duly::Annotation;
use duly::prelude::*;
use duly::testing::{Probe, TestBus};

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_paused_queue_starts_nothing_until_it_is_resumed,
    a_pause_does_not_touch_other_queues,
    what_is_set_of_two_queues_at_once_holds_for_both,
    what_is_set_is_kept_over_a_restart,
    workers_set_for_every_node_are_stronger_than_those_chosen_here,
    new_events_go_to_as_many_buckets_as_are_set,
    what_is_out_of_bounds_is_refused_with_its_bounds,
    a_rate_is_kept_in_every_second,
    events_that_wait_for_their_turn_wait_in_the_store,
    a_limit_that_is_taken_away_holds_nothing_up,
    a_low_rate_starts_nothing_in_bursts,
    all_buckets_get_their_turn,
}

async fn a_paused_queue_starts_nothing_until_it_is_resumed(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    bus.pause("orders").await.unwrap();
    queue.push_many(0..100, secs(0)).await.unwrap();
    queue.push(100, ms(50)).await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(probe.count(), 0);
    assert_eq!(bus.stats("orders").await.unwrap().leased, 0);
    assert!(bus.controls().await.unwrap()["orders"].paused);
    bus.resume("orders").await.unwrap();
    bus.settle().await;
    assert_eq!(probe.count(), 101);
}

async fn a_pause_does_not_touch_other_queues(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    bus.pause("others").await.unwrap();
    bus.queue_named("orders")
        .unwrap()
        .push(1, When::Now)
        .await
        .unwrap();
    bus.settle().await;
    assert_eq!(probe.count(), 1);
}

async fn what_is_set_of_two_queues_at_once_holds_for_both(world: World) {
    let probe = Probe::<u64>::new();
    let way = Faulty::to(&world.store);
    let builder = world.builder().shared_store(Arc::clone(&way) as _);
    let builder = builder.register_as(ORDERS, probe.clone());
    let builder = builder.register_as(Annotation::new("others"), probe.clone());
    let bus = world.start(builder).await;
    // What the first one reads back arrives after the second one is set.
    way.rolls_are(Fault::Held(secs(1)));
    let second = async {
        bus.advance(ms(500)).await;
        way.rolls_are(Fault::None);
        bus.pause("orders").await
    };
    let (first, second) = tokio::join!(bus.pause("others"), second);
    first.and(second).unwrap();
    for queue in ["orders", "others"] {
        let queue = bus.queue_named::<u64>(queue).unwrap();
        queue.push(1, When::Now).await.unwrap();
    }
    bus.advance(secs(5)).await;
    assert_eq!(probe.count(), 0);
}

async fn what_is_set_is_kept_over_a_restart(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    bus.pause("orders").await.unwrap();
    bus.set_rate("orders", Some(10.0)).await.unwrap();
    queue.push_many(0..100, secs(0)).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));

    let world = world.restart();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    bus.advance(secs(5)).await;
    assert_eq!(probe.count(), 0, "nothing was fetched before it was known");
    bus.resume("orders").await.unwrap();
    bus.advance(secs(2)).await;
    assert!((19..=22).contains(&probe.count()), "{}", probe.count());
}

async fn workers_set_for_every_node_are_stronger_than_those_chosen_here(world: World) {
    let probe = Probe::<u64>::taking(secs(1));
    let (bus, queue) = world.serve(ORDERS.workers(2), &probe).await;
    queue.push_many(0..1_000, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(probe.running_now(), 2);
    bus.set_workers_everywhere("orders", Some(10))
        .await
        .unwrap();
    bus.advance(secs(2)).await;
    assert_eq!(probe.running_now(), 10);
    bus.set_workers("orders", 3).unwrap();
    bus.advance(secs(2)).await;
    assert_eq!(probe.running_now(), 10);
    bus.set_workers_everywhere("orders", None).await.unwrap();
    bus.advance(secs(2)).await;
    assert_eq!(probe.running_now(), 3);
    bus.set_workers_everywhere("orders", Some(0)).await.unwrap();
    bus.advance(secs(2)).await;
    assert_eq!(probe.running_now(), 0);
}

async fn new_events_go_to_as_many_buckets_as_are_set(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let spread = async |bus: &TestBus| {
        let mut buckets = Vec::new();
        for number in 0..64 * 64 {
            let sent = queue.push(number, secs(60)).await.unwrap();
            buckets.push(sent.id().bucket().0);
        }
        buckets.sort_unstable();
        buckets.dedup();
        bus.settle().await;
        buckets
    };
    assert_eq!(spread(&bus).await, (0..8).collect::<Vec<_>>());
    bus.set_buckets("orders", Some(32)).await.unwrap();
    assert_eq!(spread(&bus).await, (0..32).collect::<Vec<_>>());
    bus.set_buckets("orders", Some(2)).await.unwrap();
    assert_eq!(spread(&bus).await, [0, 1]);
    bus.advance(secs(60)).await;
    assert_eq!(probe.count(), 3 * 64 * 64, "those of before are served");
    bus.set_buckets("orders", None).await.unwrap();
    assert_eq!(spread(&bus).await.len(), 8);
}

async fn what_is_out_of_bounds_is_refused_with_its_bounds(world: World) {
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    for rate in [0.0, -1.0, 0.0001, 1e7, f64::NAN, f64::INFINITY] {
        let error = bus.set_rate("orders", Some(rate)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("0.001 to 1000000"), "{error}");
    }
    for buckets in [0, 1_025] {
        let error = bus.set_buckets("orders", Some(buckets)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("1 to 1024"), "{error}");
    }
    let error = bus.pause("no such name").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(bus.controls().await.unwrap().len(), 0);
    bus.shutdown(secs(1)).await.unwrap();
    let error = bus.pause("orders").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

/// How many started in each whole second from `from` on, for so many seconds.
fn by_second(probe: &Probe<u64>, from: u64, seconds: u64) -> Vec<usize> {
    let times = probe.times();
    let within = |second: u64| move |time: &&std::time::Duration| time.as_secs() == second;
    let counted = (from..from + seconds).map(|second| times.iter().filter(within(second)).count());
    counted.collect()
}

fn is_paced(probe: &Probe<u64>, rate: usize, from: u64, seconds: u64) {
    let counted = by_second(probe, from, seconds);
    let sum: usize = counted.iter().sum();
    let wanted = rate * counted.len();
    assert!(
        sum.abs_diff(wanted) * 50 <= wanted,
        "{sum} of {wanted}: {counted:?}"
    );
    assert!(
        counted.iter().all(|second| *second * 20 <= rate * 21),
        "{counted:?}"
    );
}

async fn a_rate_is_kept_in_every_second(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    bus.set_rate("orders", Some(500.0)).await.unwrap();
    queue.push_many(0..12_000, secs(0)).await.unwrap();
    bus.advance(secs(22)).await;
    is_paced(&probe, 500, 1, 20);
}

async fn three_nodes(world: &World, probe: &Probe<u64>) -> Vec<(TestBus, Queue<u64>)> {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(world.serve(ORDERS, probe).await);
    }
    nodes
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_shared_by_all_nodes() {
    let world = World::shared();
    let probe = Probe::<u64>::new();
    let nodes = three_nodes(&world, &probe).await;
    let (bus, queue) = &nodes[0];
    bus.set_rate("orders", Some(500.0)).await.unwrap();
    bus.advance(secs(1)).await;
    queue.push_many(0..15_000, secs(0)).await.unwrap();
    bus.advance(secs(22)).await;
    is_paced(&probe, 500, 2, 20);
}

/// A bucket has one owner, and the others look there a moment later.
#[tokio::test(start_paused = true)]
async fn nodes_that_own_no_bucket_use_their_part_of_a_rate() {
    let world = World::shared();
    let probe = Probe::<u64>::new();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(world.serve(ORDERS.buckets(1), &probe).await);
    }
    let (bus, queue) = &nodes[0];
    bus.set_rate("orders", Some(500.0)).await.unwrap();
    bus.advance(secs(1)).await;
    queue.push_many(0..15_000, secs(0)).await.unwrap();
    bus.advance(secs(22)).await;
    is_paced(&probe, 500, 2, 20);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_does_not_raise_a_rate() {
    let world = World::shared();
    let probe = Probe::<u64>::new();
    let mut nodes = three_nodes(&world, &probe).await;
    let queue = nodes[0].1.clone();
    nodes[0].0.set_rate("orders", Some(500.0)).await.unwrap();
    nodes[0].0.advance(secs(1)).await;
    queue.push_many(0..15_000, secs(0)).await.unwrap();
    for _ in 0..5 {
        nodes[0].0.advance(ms(3_370)).await;
        nodes.push(world.serve(ORDERS, &probe).await);
    }
    nodes[0].0.advance(secs(4)).await;
    let times = probe.times();
    let most = times.iter().enumerate().map(|(at, from)| {
        let until = *from + secs(1);
        times[at..].partition_point(|time| *time < until)
    });
    let most = most.max().unwrap();
    assert!(most <= 525, "{most} in a second");
    is_paced(&probe, 500, 2, 18);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_starts_nothing_until_the_others_know() {
    let world = World::shared();
    let (there, comes) = (Probe::<u64>::new(), Probe::<u64>::new());
    let (bus, queue) = world.serve(ORDERS, &there).await;
    bus.set_rate("orders", Some(500.0)).await.unwrap();
    queue.push_many(0..15_000, secs(0)).await.unwrap();
    bus.advance(secs(3)).await;
    let _second = world.serve(ORDERS, &comes).await;
    bus.advance(ms(490)).await;
    assert_eq!(comes.count(), 0);
    bus.advance(secs(2)).await;
    assert!((350..=550).contains(&comes.count()), "{}", comes.count());
}

#[tokio::test(start_paused = true)]
async fn those_who_stay_take_over_the_part_of_a_rate_that_a_node_leaves() {
    let world = World::shared();
    let probe = Probe::<u64>::new();
    let mut nodes = three_nodes(&world, &probe).await;
    nodes[0].0.set_rate("orders", Some(300.0)).await.unwrap();
    nodes[0].0.advance(secs(1)).await;
    let queue = nodes[0].1.clone();
    queue.push_many(0..9_000, secs(0)).await.unwrap();
    nodes[0].0.advance(secs(3)).await;
    let (stopped, _) = nodes.pop().unwrap();
    stopped.shutdown(secs(1)).await.unwrap();
    drop(nodes.pop()); // this one is killed
    nodes[0].0.advance(secs(9)).await;
    is_paced(&probe, 300, 8, 5);
}

#[tokio::test(start_paused = true)]
async fn a_pause_reaches_every_node_and_those_that_come_later() {
    let world = World::shared();
    let probe = Probe::<u64>::new();
    let nodes = three_nodes(&world, &probe).await;
    let (bus, queue) = &nodes[0];
    bus.pause("orders").await.unwrap();
    bus.advance(ms(250)).await;
    queue.push_many(0..1_000, secs(0)).await.unwrap();
    bus.advance(secs(5)).await;
    let (_late, _) = world.serve(ORDERS, &probe).await;
    bus.advance(secs(5)).await;
    assert_eq!(probe.count(), 0);
    nodes[1].0.resume("orders").await.unwrap();
    bus.advance(ms(350)).await;
    assert_eq!(probe.count(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_pusher_hears_of_the_number_of_buckets() {
    let world = World::shared();
    let (bus, _queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    let (pusher, queue) = world.push_only::<u64>("orders").await;
    bus.set_buckets("orders", Some(1)).await.unwrap();
    pusher.advance(ms(250)).await;
    for number in 0..1_000 {
        let sent = queue.push(number, secs(9)).await.unwrap();
        assert_eq!(sent.id().bucket().0, 0);
    }
}

async fn events_that_wait_for_their_turn_wait_in_the_store(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    bus.set_rate("orders", Some(20.0)).await.unwrap();
    queue.push_many(0..1_000, secs(0)).await.unwrap();
    queue.push_many(0..1_000, ms(1_050)).await.unwrap();
    for _ in 0..20 {
        bus.advance(ms(100)).await;
        let stats = bus.stats("orders").await.unwrap();
        assert!(stats.leased <= 4, "{stats:?}");
    }
}

async fn a_limit_that_is_taken_away_holds_nothing_up(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    bus.set_rate("orders", Some(0.01)).await.unwrap();
    queue.push_many(0..1_000, secs(0)).await.unwrap();
    bus.advance(secs(10)).await;
    assert!(probe.count() <= 2);
    bus.set_rate("orders", None).await.unwrap();
    bus.settle().await;
    assert_eq!(probe.count(), 1_000);
}

async fn a_low_rate_starts_nothing_in_bursts(world: World) {
    const SLOW: Annotation = ORDERS.workers(4);
    let probe = Probe::<u64>::taking(secs(5));
    let (bus, queue) = world.serve(SLOW, &probe).await;
    bus.set_rate("orders", Some(10.0)).await.unwrap();
    queue.push_many(0..100, secs(0)).await.unwrap();
    bus.advance(secs(60)).await;
    let times = probe.times();
    assert!(times.len() >= 40, "four at a time: {}", times.len());
    for pair in times.windows(2).skip(1) {
        assert!(pair[1] - pair[0] >= ms(86), "{pair:?}");
    }
}

/// A bucket with a backlog does not keep the others waiting.
async fn all_buckets_get_their_turn(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    bus.set_rate("orders", Some(50.0)).await.unwrap();
    queue.push_many(0..5_000, secs(0)).await.unwrap();
    bus.advance(secs(10)).await;
    let seen = probe.seen();
    let mut counted = [0; 8];
    for seen in &seen {
        counted[usize::from(seen.id.bucket().0)] += 1;
    }
    assert!(counted.iter().all(|count| *count >= 20), "{counted:?}");
}
