//! Many buses on one store, one after the other and at once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use duly::Annotation;
use duly::prelude::*;
use duly::store::{MemoryStore, Store};
use duly::testing::{Probe, TestBus, VirtualClock};

use crate::kit::{Kept, PATIENCE, QUEUE, stop};

fn builder(store: &Arc<MemoryStore>) -> duly::BusBuilder {
    let shared = Arc::clone(store) as Arc<dyn Store>;
    Bus::builder().only_registered().shared_store(shared)
}

/// No poll hides a lost wake-up here: on virtual time it comes once a day.
#[tokio::test(start_paused = true)]
async fn the_first_bus_of_a_store_stays_on_time_beside_many_that_come_and_go() {
    let clock = Arc::new(VirtualClock::new());
    let store = Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _).shared());
    let probe = Probe::<String>::new();
    let first = builder(&store).register_as(Annotation::new(QUEUE), probe.clone());
    let first = TestBus::start_on(Arc::clone(&clock), first).await.unwrap();
    for round in 0..200 {
        let other = builder(&store).publish_only();
        let other = TestBus::start_on(Arc::clone(&clock), other).await.unwrap();
        let queue = other.queue_named::<String>("others").unwrap();
        queue.push("pulled".into(), When::Now).await.unwrap();
        let leased = queue.lease(1, Duration::from_secs(9)).send().await.unwrap();
        let _ = leased[0].ack().await.unwrap();
        match round % 2 {
            0 => other.shutdown(Duration::from_secs(1)).await.unwrap(),
            _ => drop(other),
        }
    }
    let queue = first.queue_named::<String>(QUEUE).unwrap();
    queue.push("on time".into(), When::Now).await.unwrap();
    first.advance(Duration::from_millis(10)).await;
    assert_eq!(probe.payloads(), ["on time"]);
}

#[tokio::test(start_paused = true)]
async fn more_living_buses_than_a_store_takes_are_refused_and_none_is_dropped() {
    let clock = Arc::new(VirtualClock::new());
    let store = Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _).shared());
    let probe = Probe::<String>::new();
    let first = builder(&store).register_as(Annotation::new(QUEUE), probe.clone());
    let first = TestBus::start_on(Arc::clone(&clock), first).await.unwrap();
    let mut living = Vec::new();
    let refused = loop {
        let other = builder(&store).publish_only();
        match TestBus::start_on(Arc::clone(&clock), other).await {
            Ok(other) => living.push(other),
            Err(error) => break error,
        }
        assert!(living.len() < 1_000, "there is a limit");
    };
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert!(refused.to_string().contains("shut down a bus"), "{refused}");
    let queue = living[0].queue_named::<String>(QUEUE).unwrap();
    queue.push("still heard".into(), When::Now).await.unwrap();
    first.advance(Duration::from_millis(10)).await;
    assert_eq!(probe.payloads(), ["still heard"]);
    drop(living.pop());
    let other = builder(&store).publish_only();
    assert!(
        TestBus::start_on(clock, other).await.is_ok(),
        "there is room again"
    );
}

#[tokio::test]
async fn a_store_goes_away_with_its_last_bus() {
    let clock = Arc::new(duly::testing::ManualClock::new());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(clock));
    let seen: Weak<dyn Store> = Arc::downgrade(&store);
    let bus = Bus::builder()
        .only_registered()
        .settings(Default::default());
    let bus = bus.shared_store(store).start().await.unwrap();
    let queue = bus.queue_named::<u64>(QUEUE).unwrap();
    queue.push(7, When::Now).await.unwrap();
    let leased = queue.lease(1, Duration::from_secs(9)).send().await.unwrap();
    assert_eq!(leased.len(), 1);
    bus.shutdown(PATIENCE).await.unwrap();
    drop((leased, queue, bus));
    let gone = async {
        while seen.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(PATIENCE, gone).await;
    assert!(gone.is_ok(), "{} owners are left", seen.strong_count());
}

/// Its descriptors are those of its files.
#[tokio::test]
async fn a_file_is_closed_with_its_bus_though_somebody_has_pulled_from_it() {
    let [_, kept, _] = Kept::each();
    let Kept::Embedded(folder) = &kept else {
        panic!("it is the second")
    };
    let folder = folder.path().canonicalize().unwrap();
    let open = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap();
        let links = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
        links.filter(|path| path.starts_with(&folder)).count()
    };
    for round in 0..3 {
        let bus = kept.start(8).await;
        let queue = bus.queue_named::<u64>(QUEUE).unwrap();
        queue.push(round, When::Now).await.unwrap();
        let leased = queue.lease(1, Duration::from_secs(9)).send().await.unwrap();
        let _ = leased[0].ack().await.unwrap();
        assert!(open() > 0);
        drop((leased, queue));
        stop(bus).await;
        let closed = async {
            while open() > 0 {
                tokio::task::yield_now().await;
            }
        };
        let closed = tokio::time::timeout(PATIENCE, closed).await;
        assert!(
            closed.is_ok(),
            "round {round}: {} descriptors are left",
            open()
        );
    }
}

#[tokio::test]
async fn a_bus_that_is_printed_shows_none_of_what_it_holds() {
    for kept in Kept::each() {
        let bus = kept.start(8).await;
        let queue = bus.queue_named::<String>(QUEUE).unwrap();
        for _ in 0..20 {
            let event = queue.event("secret payload".into()).key("secret-key");
            event.keep_payload(true).push().await.unwrap();
        }
        for leased in queue.lease(20, PATIENCE).send().await.unwrap() {
            let _ = leased.discard("secret reason").await.unwrap();
        }
        bus.pause(QUEUE).await.unwrap();
        let shown = format!("{bus:?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.len() < 600, "{} characters: {shown}", shown.len());
        stop(bus).await;
    }
}

#[tokio::test]
async fn what_only_looks_makes_no_bucket() {
    let store = Arc::new(MemoryStore::new());
    let bus = Bus::builder()
        .only_registered()
        .settings(Default::default());
    let shared = Arc::clone(&store) as Arc<dyn Store>;
    let bus = bus
        .shared_store(shared)
        .publish_only()
        .start()
        .await
        .unwrap();
    for number in 0..100 {
        let queue = bus.queue_named::<u64>(&format!("queue-{number}")).unwrap();
        for absent in [
            crate::kit::foreign(),
            queue.new_id(),
            queue.id_for_name("a"),
        ] {
            assert!(queue.get(absent).await.unwrap().is_none());
            assert!(bus.event(absent).await.unwrap().is_none());
            assert_eq!(queue.cancel(absent).await.unwrap(), CancelOutcome::NotFound);
        }
        let leased = queue.lease(1, PATIENCE).send().await.unwrap();
        assert!(leased.is_empty());
    }
    let shown = format!("{store:?}");
    assert!(shown.contains("buckets: 0"), "{shown}");
    assert!(bus.queues().await.unwrap().is_empty());
    stop(bus).await;
}
