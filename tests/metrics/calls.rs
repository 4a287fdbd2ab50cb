//! Calls of the store: each is timed, and each that fails is counted.

use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::testing::Probe;

use crate::faulty::{Fault, Faulty};
use crate::metrics::seen::Seen;
use crate::world::{ORDERS, World, secs};

#[tokio::test(start_paused = true)]
async fn every_call_is_timed_by_its_operation() {
    let (seen, _guard) = Seen::recording();
    let world = World::shared();
    let way = Faulty::to(&world.store);
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve_by(way.clone(), ORDERS, &probe).await;
    let calls = |op| {
        seen.values(&format!("duly_store_call_seconds{{op={op}}}"))
            .len()
    };

    let before = ["push", "cancel", "get", "stats", "set"].map(calls);
    assert_eq!(before, [0; 5]);
    let receipt = queue.push(1_u64, secs(60)).await.unwrap();
    queue.push_many(0..10, secs(60)).await.unwrap();
    queue.get(receipt.id()).await.unwrap();
    let _ = queue.cancel(receipt.id()).await.unwrap();
    bus.stats("orders").await.unwrap();
    assert_eq!(["push", "cancel", "get", "set"].map(calls), [2, 1, 1, 0]);
    let buckets = bus.bucket_stats("orders").await.unwrap().len();
    assert_eq!(calls("stats"), 2 * buckets, "one a bucket");
    bus.set_rate("orders", Some(100.0)).await.unwrap();
    // The line of the audit is a push, which is counted for no queue.
    assert_eq!(bus.audit(None, 9).await.unwrap().items.len(), 1);
    assert_eq!(["push", "cancel", "get", "set"].map(calls), [3, 1, 1, 1]);
    assert_eq!(seen.sum("duly_pushed_total"), 11.0);
    assert_eq!(seen.value("duly_pushed_total{queue=orders}"), 11.0);
    bus.advance(secs(70)).await;
    for op in ["fetch", "settle", "poll_members", "controls", "buckets"] {
        assert!(calls(op) > 0, "{op}");
    }
    assert_eq!(seen.sum("duly_store_errors_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn reads_of_one_queue_are_timed_as_well() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve_by(way.clone(), ORDERS, &probe).await;
    let calls = |op| {
        let name = format!("duly_store_call_seconds{{op={op}}}");
        seen.values(&name).len()
    };
    let receipt = queue.push(1_u64, secs(60)).await.unwrap();
    bus.explain(receipt.id()).await.unwrap();
    bus.forecast("orders", secs(60), secs(60)).await.unwrap();
    bus.erase("nobody").run().await.unwrap();
    for op in ["control_of", "buckets_of", "erase_records"] {
        assert!(calls(op) > 0, "{op}");
    }
}

#[tokio::test(start_paused = true)]
async fn reads_of_the_records_in_a_file_are_timed_as_well() {
    let (seen, _guard) = Seen::recording();
    let world = World::embedded();
    let way = Faulty::to(&world.store);
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve_by(way, ORDERS, &probe).await;
    let calls = |op| {
        let name = format!("duly_store_call_seconds{{op={op}}}");
        seen.values(&name).len()
    };
    assert_eq!(["read_records", "read_minutes"].map(calls), [0; 2]);
    bus.records().page().await.unwrap();
    bus.records()
        .queue("orders")
        .minutes()
        .page()
        .await
        .unwrap();
    assert_eq!(["read_records", "read_minutes"].map(calls), [1; 2]);
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_counted_by_operation_and_kind() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let probe = Probe::<u64>::new();
    let (_bus, queue) = world.serve_by(way.clone(), ORDERS, &probe).await;
    let errors = |op, kind| seen.value(&format!("duly_store_errors_total{{kind={kind},op={op}}}"));
    assert_eq!(
        errors("fetch", "unavailable"),
        0.0,
        "it is there before the first one"
    );

    way.meets(|_, op| match op {
        StoreOp::Push(_) => Fault::Refused(ErrorKind::Full),
        _ => Fault::None,
    });
    queue.push(1, When::Now).await.unwrap_err();
    assert_eq!(errors("push", "full"), 1.0);
    way.meets(|_, _| Fault::Refused(ErrorKind::Unavailable));
    queue.cancel(queue.new_id()).await.unwrap_err();
    assert_eq!(errors("cancel", "unavailable"), 1.0);
    assert_eq!(seen.sum("duly_store_errors_total"), 2.0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_is_timed_and_is_no_error_before_ten_seconds() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let builder = Bus::builder().publish_only().shared_store(way.clone());
    let bus = world.start(builder).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    way.is(Fault::Hung);
    let errors = || seen.sum("duly_store_errors_total");
    let push = tokio::time::timeout(secs(7), queue.push(1, When::Now)).await;
    push.unwrap_err();
    assert_eq!(seen.values("duly_store_call_seconds{op=push}"), [7.0]);
    assert_eq!(errors(), 0.0, "its caller has dropped it");
    let push = tokio::time::timeout(secs(11), queue.push(1, When::Now)).await;
    push.unwrap_err();
    assert_eq!(errors(), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_could_not_be_noted_is_counted() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve_by(way.clone(), ORDERS, &probe).await;
    way.notes_fail
        .store(true, std::sync::atomic::Ordering::Relaxed);
    queue.push(1, When::Now).await.unwrap();
    bus.settle().await;
    assert_eq!(probe.count(), 0);
    assert_eq!(
        seen.value("duly_store_errors_total{kind=unavailable,op=starting}"),
        1.0
    );
    assert_eq!(seen.value("duly_delivered_total{queue=orders}"), 0.0);
}
