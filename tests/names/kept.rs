//! Retention of dead letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::Annotation;
use duly::config::QueueChoices;
use duly::event::BucketId;
use duly::lease::LeaseStatus;
use duly::prelude::*;
use duly::records::Outcome;
use duly::store::operation::StoreOp;
use duly::store::{MemoryStore, Store};
use duly::testing::{TestBus, VirtualClock};

use crate::faulty::{Fault, Faulty};
use crate::kit::{Kept, QUEUE, stop};

const HOUR: Duration = Duration::from_secs(3_600);

/// Every event becomes a dead letter.
#[derive(Clone)]
struct Failing;

impl Handler for Failing {
    type Payload = u64;

    async fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        Err(Failure::permanent("always"))
    }
}

fn limited(
    builder: duly::BusBuilder,
    keep_for: Option<Duration>,
    keep_max: Option<usize>,
) -> duly::BusBuilder {
    let choices = QueueChoices {
        dead_keep_for: keep_for,
        dead_keep_max: keep_max,
        ..QueueChoices::default()
    };
    builder
        .register_as(Annotation::new(QUEUE), Failing)
        .queue(QUEUE, choices)
}

async fn dead(bus: &Bus) -> usize {
    bus.stats(QUEUE).await.unwrap().dead
}

#[tokio::test(start_paused = true)]
async fn dead_letters_stay_for_ever_without_a_limit() {
    let bus = limited(Bus::builder().only_registered(), None, None);
    let bus = TestBus::start(bus).await.unwrap();
    bus.queue_named::<u64>(QUEUE)
        .unwrap()
        .push(7, When::Now)
        .await
        .unwrap();
    bus.advance(Duration::from_secs(400 * 86_400)).await;
    assert_eq!(dead(&bus).await, 1);
}

#[tokio::test(start_paused = true)]
async fn old_dead_letters_are_dropped_and_recorded_and_younger_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    for url in [
        "memory:".to_owned(),
        format!("sqlite:{}", folder.path().join("a.db").display()),
    ] {
        let builder = Bus::builder().only_registered().store_url(url);
        let bus = TestBus::start(limited(builder, Some(HOUR), None))
            .await
            .unwrap();
        let queue = bus.queue_named::<u64>(QUEUE).unwrap();
        // More than a page of one bucket.
        let old = queue.push_many(0..1_500, Duration::ZERO).await.unwrap();
        bus.advance(HOUR / 2).await;
        assert_eq!(dead(&bus).await, 1_500);
        let young = queue.push(7, When::Now).await.unwrap().id();
        bus.advance(HOUR / 2 + Duration::from_secs(130)).await;
        assert_eq!(dead(&bus).await, 1);
        assert!(queue.get(young).await.unwrap().is_some());
        let records = bus
            .records()
            .id(old[77].id())
            .newest_first()
            .page()
            .await
            .unwrap();
        assert_eq!(records.items[0].outcome, Outcome::Dropped);
        assert_eq!(records.items[0].by.as_deref(), Some("retention"));
        bus.advance(HOUR).await;
        assert_eq!(dead(&bus).await, 0);
    }
}

/// A bus that keeps dead letters for an hour, and its way to a shared store.
async fn behind_a_way() -> (TestBus, Arc<Faulty>) {
    let clock = Arc::new(VirtualClock::new());
    let store = MemoryStore::with_clock(Arc::clone(&clock) as _).shared();
    let way = Faulty::to(&(Arc::new(store) as Arc<dyn Store>));
    let builder = Bus::builder().only_registered();
    let builder = builder.shared_store(Arc::clone(&way) as _);
    let builder = limited(builder, Some(HOUR), None);
    let bus = TestBus::start_on(clock, builder).await.unwrap();
    (bus, way)
}

#[tokio::test(start_paused = true)]
async fn after_a_clock_that_was_ahead_none_stays_longer() {
    for ahead in [HOUR / 40, 24 * HOUR, 9_000 * HOUR] {
        let (bus, way) = behind_a_way().await;
        let queue = bus.queue_named::<u64>(QUEUE).unwrap();
        queue.push(1, When::Now).await.unwrap();
        let ahead_us = u64::try_from(ahead.as_micros()).unwrap();
        way.ahead_us.store(ahead_us, Ordering::Relaxed);
        bus.advance(HOUR / 20).await;
        way.ahead_us.store(0, Ordering::Relaxed);
        queue.push(2, When::Now).await.unwrap();
        bus.advance(HOUR / 2).await;
        assert!(dead(&bus).await > 0, "{ahead:?}: it dies, and is young");
        bus.advance(2 * HOUR).await;
        assert_eq!(dead(&bus).await, 0, "{ahead:?}");
    }
}

/// From the first read of a look on, which takes many pages where there are many letters.
#[tokio::test(start_paused = true)]
async fn after_a_clock_that_was_ahead_during_a_look_none_stays_longer() {
    let (bus, way) = behind_a_way().await;
    let queue = bus.queue_named::<u64>(QUEUE).unwrap();
    queue.push(1, When::Now).await.unwrap();
    let it = Arc::downgrade(&way);
    way.meets(move |_, op| {
        if let (StoreOp::ReadDead { .. }, Some(way)) = (op, it.upgrade()) {
            let year = Duration::from_secs(365 * 86_400);
            way.ahead_us
                .store(year.as_micros() as u64, Ordering::Relaxed);
        }
        Fault::None
    });
    while way.ahead_us.load(Ordering::Relaxed) == 0 {
        bus.advance(Duration::from_secs(1)).await; // until it looks
    }
    way.meets(|_, _| Fault::None);
    way.ahead_us.store(0, Ordering::Relaxed);
    assert_eq!(dead(&bus).await, 1);
    bus.advance(2 * HOUR).await;
    assert_eq!(dead(&bus).await, 0);
}

#[tokio::test(start_paused = true)]
async fn of_too_many_dead_letters_the_first_are_dropped() {
    let bus = limited(Bus::builder().only_registered(), None, Some(100));
    let bus = TestBus::start(bus).await.unwrap();
    let queue = bus.queue_named::<u64>(QUEUE).unwrap();
    for _ in 0..4 {
        queue.push_many(0..200, Duration::ZERO).await.unwrap();
        bus.advance(Duration::from_secs(130)).await;
        assert_eq!(dead(&bus).await, 100);
    }
    let last = queue.push(7, When::Now).await.unwrap().id();
    bus.advance(Duration::from_secs(300)).await;
    assert!(queue.get(last).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn of_one_dead_letter_too_many_in_as_many_buckets_one_is_dropped() {
    let choices = QueueChoices {
        buckets: Some(101),
        dead_keep_max: Some(100),
        ..QueueChoices::default()
    };
    let builder = Bus::builder().only_registered();
    let builder = builder.register_as(Annotation::new(QUEUE), Failing);
    let bus = TestBus::start(builder.queue(QUEUE, choices)).await.unwrap();
    let queue = bus.queue_named::<u64>(QUEUE).unwrap();
    for bucket in 0..101 {
        let id = EventId::from_parts(bus.now(), BucketId(bucket), u64::from(bucket));
        queue.event(7).id(id).push().await.unwrap();
    }
    bus.advance(Duration::from_secs(1)).await;
    assert_eq!(dead(&bus).await, 101);
    bus.advance(Duration::from_secs(130)).await;
    assert_eq!(dead(&bus).await, 100);
}

#[tokio::test(start_paused = true)]
async fn several_processes_together_drop_no_more_than_what_is_too_many() {
    let clock = Arc::new(VirtualClock::new());
    let store = MemoryStore::with_clock(Arc::clone(&clock) as _).shared();
    let store: Arc<dyn Store> = Arc::new(store);
    let mut buses = Vec::new();
    for _ in 0..3 {
        let builder = Bus::builder().only_registered();
        let builder = builder.shared_store(Arc::clone(&store));
        let builder = limited(builder, None, Some(2_000));
        fastrand::seed(7); // they begin their rounds together
        let bus = TestBus::start_on(Arc::clone(&clock), builder).await;
        buses.push(bus.unwrap());
    }
    let queue = buses[0].queue_named::<u64>(QUEUE).unwrap();
    for _ in 0..4 {
        queue.push_many(0..1_000, Duration::ZERO).await.unwrap();
    }
    buses[0].advance(Duration::from_secs(20)).await;
    assert_eq!(dead(&buses[0]).await, 4_000);
    buses[0].advance(Duration::from_secs(200)).await;
    assert_eq!(dead(&buses[0]).await, 2_000);
}

#[tokio::test]
async fn a_limit_that_is_none_is_refused() {
    let [kept, ..] = Kept::each();
    for keep_for in [Duration::ZERO, Duration::from_secs(11 * 366 * 86_400)] {
        let refused = limited(kept.builder(), Some(keep_for), None).start().await;
        let error = refused.map(|_| ()).expect_err("refused");
        assert!(error.to_string().contains("dead_keep_for"), "{error}");
    }
    let bus = limited(kept.builder(), Some(HOUR), Some(0))
        .start()
        .await
        .unwrap();
    stop(bus).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_consumes_nothing_enforces_its_limits_for_all_queues_if_it_is_told_to() {
    let mut settings = duly::config::Settings::default();
    settings.queue_defaults.dead_keep_max = Some(3);
    let builder = Bus::builder().only_registered().publish_only();
    let bus = TestBus::start(builder.settings(settings)).await.unwrap();
    duly::__server::dead_letters::start_for_all(&bus);
    for queue in ["shop.mail", "bank.close"] {
        let queue = bus.queue_named::<u64>(queue).unwrap();
        queue.push_many(0..10, When::Now).await.unwrap();
        for leased in queue.lease(10, HOUR).send().await.unwrap() {
            assert_eq!(leased.bury("it is so").await.unwrap(), LeaseStatus::Held);
        }
        assert_eq!(bus.stats(queue.name()).await.unwrap().dead, 10);
    }
    bus.advance(Duration::from_secs(130)).await;
    for queue in ["shop.mail", "bank.close"] {
        assert_eq!(bus.stats(queue).await.unwrap().dead, 3, "{queue}");
    }
}

/// A bus on a store that counts the operations which `counts`.
async fn counted(
    counts: impl Fn(&StoreOp) -> bool + Send + 'static,
    build: impl FnOnce(duly::BusBuilder) -> duly::BusBuilder,
) -> (TestBus, Arc<AtomicUsize>) {
    let clock = Arc::new(VirtualClock::new());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _));
    let (way, calls) = (Faulty::to(&store), Arc::<AtomicUsize>::default());
    let counter = Arc::clone(&calls);
    way.meets(move |_, op| {
        counter.fetch_add(usize::from(counts(op)), Ordering::Relaxed);
        Fault::None
    });
    let builder = Bus::builder().only_registered().shared_store(way);
    let bus = TestBus::start_on(clock, build(builder)).await.unwrap();
    (bus, calls)
}

/// All at once, or the whole day: a page a second is read at most, and all goes in time.
#[tokio::test(start_paused = true)]
async fn what_was_pushed_long_before_it_died_is_not_read_each_minute() {
    const DAY: Duration = Duration::from_secs(86_400);
    for many in [1_u32, 24] {
        let reads = |op: &StoreOp| matches!(op, StoreOp::ReadDead { .. });
        let (bus, reads) = counted(reads, |bus| limited(bus, Some(DAY), None)).await;
        let queue = bus.queue_named::<u64>(QUEUE).unwrap();
        for hour in 0..many {
            let delay = 7 * DAY + hour * HOUR;
            let events = 0..u64::from(24_000 / many);
            queue.push_many(events, delay).await.unwrap();
        }
        bus.advance(7 * DAY + DAY - Duration::from_secs(600)).await;
        assert_eq!(dead(&bus).await, 24_000);
        let before = reads.load(Ordering::Relaxed);
        assert!(before < 12_000, "{many}: {before}");
        bus.advance(DAY / 2).await;
        let in_half_a_day = reads.load(Ordering::Relaxed) - before;
        assert!(in_half_a_day < 6_000, "{many}: {in_half_a_day}");
        bus.advance(DAY / 2 + 2 * HOUR).await;
        assert_eq!(dead(&bus).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn of_one_bucket_with_too_many_the_others_are_not_counted_for_each_page() {
    let stats = |op: &StoreOp| matches!(op, StoreOp::Stats);
    let choices = QueueChoices {
        buckets: Some(200),
        dead_keep_max: Some(300),
        ..QueueChoices::default()
    };
    let build = |bus: duly::BusBuilder| {
        let bus = bus.register_as(Annotation::new(QUEUE), Failing);
        bus.queue(QUEUE, choices)
    };
    let (bus, counts) = counted(stats, build).await;
    let queue = bus.queue_named::<u64>(QUEUE).unwrap();
    for number in 0..5_200_u16 {
        let bucket = BucketId(number.saturating_sub(5_000));
        let id = EventId::from_parts(bus.now(), bucket, u64::from(number));
        queue.event(7).id(id).push().await.unwrap();
    }
    bus.advance(Duration::from_secs(1)).await;
    assert_eq!(dead(&bus).await, 5_200);
    let before = counts.load(Ordering::Relaxed);
    bus.advance(Duration::from_secs(90)).await;
    let counts = counts.load(Ordering::Relaxed) - before;
    assert_eq!(dead(&bus).await, 300);
    assert!(counts < 1_500, "{counts} counts");
}
