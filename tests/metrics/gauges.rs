//! Gauges of rings and workers: true while something goes on, and true when nothing does.

use std::sync::Arc;

use duly::Annotation;
use duly::metrics::{CATALOGUE, Kind};
use duly::testing::Probe;
use duly::time::When;

use crate::bad::{Bad, Mode};
use crate::metrics::seen::Seen;
use crate::world::{ORDERS, World, ms, secs};

#[tokio::test(start_paused = true)]
async fn rings_and_workers_are_seen_while_they_are_in_use_and_free_afterwards() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let probe = Probe::<u64>::taking(secs(10));
    let (bus, queue) = world
        .serve(ORDERS.workers(3).timeout(secs(60)), &probe)
        .await;
    let gauge = |name| seen.value(&format!("duly_{name}{{queue=orders}}"));
    assert_eq!(gauge("workers"), 3.0);
    assert_eq!((gauge("workers_busy"), gauge("ring_used")), (0.0, 0.0));

    queue.push_many(0..10, secs(0)).await.unwrap();
    bus.advance(secs(2)).await;
    assert_eq!((gauge("workers_busy"), gauge("ring_used")), (3.0, 7.0));
    bus.advance(secs(30)).await;
    assert_eq!((gauge("workers_busy"), gauge("ring_used")), (1.0, 0.0));
    bus.advance(secs(20)).await;
    assert_eq!((gauge("workers_busy"), gauge("ring_used")), (0.0, 0.0));
    bus.set_workers("orders", 5).unwrap();
    bus.advance(secs(2)).await;
    assert_eq!(gauge("workers"), 5.0);
}

#[tokio::test(start_paused = true)]
async fn what_is_over_within_a_second_is_not_said_to_go_on() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let probe = Probe::<u64>::taking(ms(100));
    let (bus, queue) = world.serve(ORDERS.workers(1), &probe).await;
    bus.advance(secs(10)).await;
    queue.push_many(0..5, secs(0)).await.unwrap();
    bus.advance(secs(3)).await;
    assert_eq!(probe.count(), 5);
    for name in ["workers_busy", "ring_used"] {
        assert_eq!(
            seen.value(&format!("duly_{name}{{queue=orders}}")),
            0.0,
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_waits_for_its_rate_says_so_and_one_without_work_does_not() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let waiting = || seen.value("duly_rate_waiting{queue=orders}");
    bus.set_rate("orders", Some(1.0)).await.unwrap();
    bus.advance(secs(5)).await;
    assert_eq!(waiting(), 0.0, "nothing waits");
    queue.push_many(0..10, secs(0)).await.unwrap();
    bus.advance(ms(4_500)).await;
    assert!((4..=6).contains(&probe.count()), "{}", probe.count());
    assert_eq!(waiting(), 1.0);
    bus.advance(secs(60)).await;
    assert_eq!(probe.count(), 10);
    assert_eq!(waiting(), 0.0);
}

#[tokio::test(start_paused = true)]
async fn the_mover_says_how_long_it_means_to_sleep() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    bus.advance(secs(10)).await;
    queue.push(1, secs(500)).await.unwrap();
    bus.advance(secs(10)).await;
    let sleep = seen.value("duly_mover_sleep_seconds");
    assert!((470.0..=500.0).contains(&sleep), "{sleep}");
}

#[tokio::test(start_paused = true)]
async fn two_buses_of_a_process_are_seen_together_and_the_one_that_is_left_alone() {
    let (seen, _guard) = Seen::recording();
    let (first, second) = (World::memory(), World::memory());
    let busy = Probe::<u64>::taking(secs(60));
    let (one, queue) = first
        .serve(ORDERS.workers(3).timeout(secs(90)), &busy)
        .await;
    let idle = Probe::<u64>::new();
    let (two, _) = second.serve(ORDERS.workers(2), &idle).await;
    let gauge = |name| seen.value(&format!("duly_{name}{{queue=orders}}"));
    assert_eq!(gauge("workers"), 5.0);
    queue.push_many(0..4, secs(0)).await.unwrap();
    one.advance(secs(2)).await;
    assert_eq!((gauge("workers_busy"), gauge("ring_used")), (3.0, 1.0));
    two.queue_named::<u64>("orders")
        .unwrap()
        .push(7, When::Now)
        .await
        .unwrap();
    two.advance(secs(2)).await; // its gauges are told last
    assert_eq!((gauge("workers_busy"), gauge("ring_used")), (3.0, 1.0));
    two.shutdown(secs(1)).await.unwrap();
    drop(two);
    one.settle().await;
    assert_eq!((gauge("workers"), gauge("workers_busy")), (3.0, 3.0));
}

/// The handles of a bus that has ended keep parts of it.
#[tokio::test(start_paused = true)]
async fn no_gauge_tells_of_a_bus_that_has_ended_though_a_queue_of_it_is_kept() {
    for stops in [true, false] {
        let (seen, _guard) = Seen::recording();
        let gauges = || {
            let is_gauge = |name: &String| {
                let name = name.split('{').next().unwrap();
                CATALOGUE
                    .iter()
                    .any(|it| it.name == name && matches!(it.kind, Kind::Gauge))
            };
            let names = seen.names().into_iter().filter(is_gauge);
            let told = names.filter(|name| seen.value(name) != 0.0);
            told.collect::<Vec<_>>()
        };
        let world = World::memory();
        let journal = Arc::<Bad>::default();
        let builder = world.builder().shared_journal(Arc::clone(&journal) as _);
        let busy = Probe::<u64>::taking(secs(90));
        let builder = builder
            .register_as(ORDERS.workers(3).timeout(secs(100)), busy)
            .register_as(Annotation::new("quick"), Probe::<u64>::new());
        let bus = world.start(builder).await;
        let queue = bus.queue_named::<u64>("orders").unwrap();
        let quick = bus.queue_named::<u64>("quick").unwrap();
        journal.now(Mode::Fails);
        queue.push_many(0..10, secs(0)).await.unwrap();
        quick.push_many(0..50, secs(0)).await.unwrap();
        quick.push_many(0..50, secs(3_600)).await.unwrap();
        bus.advance(secs(80)).await;
        let told = gauges();
        for name in [
            "duly_journal_away",
            "duly_journal_lag_seconds",
            "duly_outbox_waiting",
            "duly_mover_sleep_seconds",
            "duly_workers_busy{queue=orders}",
        ] {
            assert!(told.iter().any(|it| it == name), "{name}: {told:?}");
        }
        if stops {
            let _ = bus.shutdown(secs(1)).await;
        }
        drop(bus);
        tokio::time::sleep(secs(10)).await;
        assert_eq!(gauges(), [""; 0], "{stops}");
        drop((queue, quick));
    }
}
