//! Retention of dead letters.

use std::time::Duration;

use duly::Annotation;
use duly::config::QueueChoices;
use duly::prelude::*;
use duly::records::Outcome;
use duly::testing::TestBus;

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

#[tokio::test(start_paused = true)]
async fn of_too_many_dead_letters_the_first_are_dropped() {
    let bus = limited(Bus::builder().only_registered(), None, Some(100));
    let bus = TestBus::start(bus).await.unwrap();
    let queue = bus.queue_named::<u64>(QUEUE).unwrap();
    for _ in 0..4 {
        queue.push_many(0..200, Duration::ZERO).await.unwrap();
        bus.advance(Duration::from_secs(130)).await;
        let left = dead(&bus).await;
        assert!(
            (92..=100).contains(&left),
            "{left}: a bucket may drop one more"
        );
    }
    let last = queue.push(7, When::Now).await.unwrap().id();
    bus.advance(Duration::from_secs(300)).await;
    assert!(queue.get(last).await.unwrap().is_some());
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
