//! What makes a start fail, in words that say what would be right.

use std::time::Duration;

use duly::config::NodeOptions;
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::testing::{Probe, TestBus};
use duly::{Annotation, BusBuilder, State, StateRequirement};

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

/// Expects the start to be refused, in these words.
async fn refused(builder: BusBuilder, words: &[&str]) {
    let error = TestBus::start(builder).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    for words in words {
        assert!(error.to_string().contains(words), "{error}");
    }
}

fn builder() -> BusBuilder {
    Bus::builder().only_registered()
}

#[tokio::test(start_paused = true)]
async fn two_handlers_of_one_queue_are_refused() {
    let builder = builder().register_as(ORDERS, Probe::<u64>::new());
    let builder = builder.register_as(ORDERS, Probe::<String>::new());
    refused(
        builder,
        &[
            "orders",
            "two handlers",
            "Probe<u64>",
            "Probe<alloc::string::String>",
        ],
    )
    .await;
}

struct Db;

#[delay_event(queue = "orders", register = false)]
async fn close(event: Event<u64>, State(_db): State<Db>) -> Result<(), Failure> {
    let _order = event.payload;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_state_that_nobody_gave_is_missed_at_the_start() {
    refused(
        builder().register(close {}),
        &["close", "orders", "Db", ".state("],
    )
    .await;
    let bus = TestBus::start(builder().register(close {}).state(Db)).await;
    bus.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_state_that_an_annotation_names_is_missed_too() {
    const NEEDS: Annotation = ORDERS.states(&[StateRequirement::of::<Db>()]);
    refused(builder().register_as(NEEDS, Probe::<u64>::new()), &["Db"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_value_outside_its_bounds_is_refused_by_name() {
    let cases: [(Annotation, &str); 8] = [
        (ORDERS.buckets(0), "buckets is 0; it must be 1 to 1024"),
        (ORDERS.buckets(1_025), "buckets is 1025"),
        (ORDERS.workers(65_537), "workers is 65537"),
        (ORDERS.attempts(0), "attempts is 0"),
        (ORDERS.timeout(Duration::ZERO), "timeout is 0s"),
        (ORDERS.timeout(secs(8 * 86_400)), "at most 7d"),
        (ORDERS.ring(100), "ring is 100; it must be a power of two"),
        (ORDERS.ring(32), "from 64 to 65536"),
    ];
    for (annotation, words) in cases {
        let builder = builder().register_as(annotation, Probe::<u64>::new());
        refused(builder, &["orders", words]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_choice_on_the_builder_is_checked_too() {
    let choices = QueueChoices {
        ring: Some(63),
        ..QueueChoices::default()
    };
    refused(
        builder().queue("orders", choices),
        &["orders", "ring is 63"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_illegal_queue_name_is_refused() {
    let named = Annotation::new("no spaces, please");
    refused(
        builder().register_as(named, Probe::<u64>::new()),
        &["letters, digits"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_store_is_refused() {
    for url in ["", "memory", "memory:x", "postgres://127.0.0.1", "duly.db"] {
        let words = &["unknown scheme", "`memory:`", "`sqlite:`"];
        refused(builder().store_url(url), words).await;
    }
}

#[tokio::test(start_paused = true)]
async fn times_that_do_not_fit_together_are_refused() {
    let node = NodeOptions {
        heartbeat: secs(2),
        ..NodeOptions::default()
    };
    refused(
        builder().node_options(node),
        &["heartbeat", "two heartbeats"],
    )
    .await;
    refused(
        builder().read_ahead(secs(11)),
        &["read_ahead", "at most 10s"],
    )
    .await;
    let ahead = NodeOptions {
        ahead: secs(11),
        ..NodeOptions::default()
    };
    refused(
        builder().node_options(ahead),
        &["read_ahead", "at most 10s"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn read_ahead_is_that_of_the_builder_else_that_of_the_node() {
    let given = NodeOptions {
        ahead: ms(0),
        crowd_ahead: ms(0),
        ..NodeOptions::default()
    };
    for (read_ahead, expected) in [(None, ms(0)), (Some(ms(20)), ms(20))] {
        let world = World::memory();
        let way = Faulty::to(&world.store);
        let (spans, fetched) = std::sync::mpsc::channel();
        way.meets(move |_, op| {
            if let StoreOp::Fetch(fetch) = op {
                spans.send(fetch.ahead).unwrap();
            }
            Fault::None
        });
        let mut builder = builder().node_options(given.clone()).shared_store(way);
        if let Some(span) = read_ahead {
            builder = builder.read_ahead(span);
        }
        let builder = builder.register_as(ORDERS, Probe::<u64>::new());
        let bus = world.start(builder).await;
        let queue = bus.queue_named::<u64>("orders").unwrap();
        queue.event(7).after(secs(1)).push().await.unwrap();
        bus.advance(secs(2)).await;
        let spans: Vec<Duration> = fetched.try_iter().collect();
        assert!(!spans.is_empty());
        assert!(spans.iter().all(|it| *it == expected), "{spans:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_has_one_owner() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("duly.db").display());
    let first = TestBus::start(builder().store_url(&url)).await.unwrap();
    let error = TestBus::start(builder().store_url(&url)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    first.shutdown(secs(1)).await.unwrap();
    TestBus::start(builder().store_url(&url)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_builder_overrules_the_annotation() {
    let world = World::memory();
    let probe = Probe::<u64>::answering(|_event, _cx| Err(Failure::retry("no")));
    let choices = QueueChoices {
        attempts: Some(2),
        backoff: Some(RetryPolicy::fixed(secs(7))),
        ..QueueChoices::default()
    };
    let builder = world
        .builder()
        .register_as(ORDERS.attempts(9), probe.clone());
    let bus = world.start(builder.queue("orders", choices)).await;
    let queue = bus.queue_named("orders").unwrap();
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(probe.times(), [secs(0), secs(7)]);
}

/// Neither the start nor what follows it may panic for want of a timer.
#[test]
fn a_runtime_without_timers_is_refused() {
    let builders = [
        tokio::runtime::Builder::new_current_thread,
        tokio::runtime::Builder::new_multi_thread,
    ];
    for new in builders {
        let runtime = new().enable_io().build().unwrap();
        let builder = builder().settings(Default::default()).store_url("memory:");
        let error = runtime.block_on(builder.start()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("enable_time"), "{error}");
    }
}

#[test]
fn a_runtime_without_io_is_refused_where_something_connects() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    let shared = builder().settings(Default::default());
    let shared = shared.store_url("redis://127.0.0.1:1");
    let error = runtime.block_on(shared.start()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("enable_io"), "{error}");

    let alone = builder().settings(Default::default()).store_url("memory:");
    runtime.block_on(async {
        let bus = alone.register_as(ORDERS, Probe::<u64>::new()).start().await;
        let bus = bus.unwrap();
        let queue = bus.queue_named::<u64>("orders").unwrap();
        queue.call::<()>(1, secs(60)).await.unwrap();
        bus.shutdown(secs(30)).await.unwrap();
    });
}
