//! `bus.forecast`.

use std::sync::Arc;

use duly::admin::FORECAST_STEPS_MAX;
use duly::prelude::*;
use duly::store::MemoryStore;
use duly::testing::{TestBus, VirtualClock};

use crate::kit::{push, secs};

#[tokio::test(start_paused = true)]
async fn a_forecast_says_for_each_step_what_falls_due_in_it() {
    let bus = TestBus::start(Bus::builder().publish_only()).await.unwrap();
    let delays = [5, 10, 11, 60, 61, 3_600].map(secs);
    push(&bus, "orders", &delays).await.unwrap();
    let now = bus.now();
    let coming = bus.forecast("orders", secs(25), secs(10)).await.unwrap();
    let coming: Vec<_> = coming
        .iter()
        .map(|step| (step.until, step.events))
        .collect();
    assert_eq!(
        coming,
        [
            (now + secs(10), 2),
            (now + secs(20), 1),
            (now + secs(25), 0)
        ],
        "the end of a step belongs to it, and the last one may be shorter"
    );
    let coming = bus
        .forecast("orders", secs(7_200), secs(3_600))
        .await
        .unwrap();
    assert_eq!(coming.iter().map(|step| step.events).sum::<usize>(), 6);
    assert!(
        bus.forecast("others", secs(9), secs(1))
            .await
            .unwrap()
            .iter()
            .all(|step| step.events == 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_forecast_counts_the_buckets_that_the_queue_has_no_more() {
    let bus = TestBus::start(Bus::builder().publish_only()).await.unwrap();
    bus.set_buckets("orders", Some(64)).await.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    for number in 0..200_u64 {
        let event = queue.event(number).key(number.to_string());
        event.after(secs(30)).push().await.unwrap();
    }
    bus.set_buckets("orders", Some(1)).await.unwrap();
    assert!(bus.bucket_stats("orders").await.unwrap().len() > 8);
    let coming = bus.forecast("orders", secs(60), secs(60)).await.unwrap();
    assert_eq!(coming[0].events, 200);
}

#[tokio::test(start_paused = true)]
async fn a_forecast_of_too_many_steps_says_how_many_are_answered() {
    let bus = TestBus::start(Bus::builder().publish_only()).await.unwrap();
    let max = u64::try_from(FORECAST_STEPS_MAX).unwrap();
    let whole = bus.forecast("orders", secs(max), secs(1)).await.unwrap();
    assert_eq!(whole.len(), FORECAST_STEPS_MAX);
    let error = bus
        .forecast("orders", secs(max + 1), secs(1))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("has 401 steps, at most 400"),
        "{error}"
    );
    for (horizon, step) in [(secs(1), secs(0)), (std::time::Duration::MAX, secs(1))] {
        let error = bus.forecast("orders", horizon, step).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert_eq!(bus.forecast("orders", secs(0), secs(1)).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_many_steps_waits_his_turn() {
    let clock = Arc::new(VirtualClock::new());
    let store = MemoryStore::with_clock(Arc::clone(&clock) as _);
    let builder = Bus::builder().store(store).publish_only();
    let bus = TestBus::start_on(clock, builder).await.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    queue.push_many(0..512, secs(1_000)).await.unwrap();
    assert_eq!(bus.bucket_stats("orders").await.unwrap().len(), 8);
    let began = bus.now();
    let asked = (0..10).map(|_| bus.forecast("orders", secs(4_000), secs(10)));
    for coming in futures_util::future::join_all(asked).await {
        let sum: usize = coming.unwrap().iter().map(|step| step.events).sum();
        assert_eq!(sum, 512, "who waits is not told less");
    }
    let took = bus.now().since(began);
    // The last bucket is counted when of 31,600 steps before it 5,000 are owed, at 5,000 a second.
    assert!((5_320..5_330).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_large_forecast_holds_no_small_one_up() {
    let clock = Arc::new(VirtualClock::new());
    let store = MemoryStore::with_clock(Arc::clone(&clock) as _);
    let builder = Bus::builder().store(store).publish_only();
    let bus = TestBus::start_on(clock, builder).await.unwrap();
    bus.set_buckets("large", Some(1_024)).await.unwrap();
    let queue = bus.queue_named::<u64>("large").unwrap();
    for number in 0..4_000_u64 {
        let event = queue.event(number).key(number.to_string());
        event.after(secs(3_000)).push().await.unwrap();
    }
    let buckets = bus.bucket_stats("large").await.unwrap().len();
    assert!(buckets > 900, "{buckets}");
    push(&bus, "small", &[secs(5)]).await.unwrap();
    let began = bus.now();
    let smaller = async {
        for _ in 0..9 {
            let coming = bus.forecast("small", secs(300), secs(10)).await.unwrap();
            assert_eq!(coming[0].events, 1);
        }
        bus.now().since(began)
    };
    let larger = async {
        let coming = bus.forecast("large", secs(4_000), secs(10)).await.unwrap();
        (coming, bus.now().since(began))
    };
    let ((coming, long), short) = tokio::join!(larger, smaller);
    assert!(long > secs(70), "{long:?}");
    // Each waits for one bucket of the other.
    assert!(short < secs(1), "{short:?}");
    // Whenever a bucket was counted, it is as of the begin.
    let due: Vec<_> = coming.iter().filter(|step| step.events > 0).collect();
    assert_eq!((due.len(), due[0].events), (1, 4_000), "{due:?}");
    assert_eq!(due[0].until, began + secs(3_000));
}
