//! What nodes report of queue depth.

use std::sync::Arc;
use std::time::Duration;

use duly::metrics::MetricsChoices;
use duly::store::{MemoryStore, Store};
use duly::time::{Clock, Mono, SystemClock};
use duly::{Annotation, Bus};

use crate::kit::{
    ALONE, Nothing, PATIENCE, counting, depth, gauge, paused, push, secs, settled, stop, until,
};
use crate::servers::{prefix, shared};

fn fresh() -> String {
    format!("{}?prefix={}", shared().url(), prefix())
}

#[tokio::test]
async fn each_node_of_a_store_reports_all_that_is_in_its_queues() {
    let _alone = ALONE.lock().await;
    let url = fresh();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(paused(&url, "sums").await);
    }
    let delays: Vec<_> = (0..300).map(|number| secs(number % 3 * 1_000)).collect();
    push(&nodes[0], "sums", &delays).await.unwrap();
    let tells = |ready: f64, scheduled: f64| {
        depth("sums", "ready") == Some(ready) && depth("sums", "scheduled") == Some(scheduled)
    };
    // Nothing is counted twice, however many report it.
    let all_live = || gauge("duly_live_nodes", "") == Some(3.0);
    settled("all is told of", || tells(100.0, 200.0) && all_live()).await;
    // What a node has told goes away with it, and the others tell it.
    stop(&nodes.remove(0)).await;
    settled("two tell it all", || {
        gauge("duly_live_nodes", "") == Some(2.0) && tells(100.0, 200.0)
    })
    .await;
    for node in &nodes {
        stop(node).await;
    }
    assert!(tells(0.0, 0.0), "nobody answers for it here any more");
}

/// The pools of a server have queues of the same names, with other events in them.
#[tokio::test]
async fn what_several_stores_have_adds_up_and_what_several_buses_see_of_one_does_not() {
    let _alone = ALONE.lock().await;
    let (one, other) = (fresh(), fresh());
    let urls = ["memory:", "memory:", &one, &one, &other];
    let mut nodes = Vec::new();
    for url in urls {
        nodes.push(paused(url, "pools").await);
    }
    let (ready, scheduled) = (&[secs(0)][..], &[secs(1_000)][..]);
    for (node, ready_many, scheduled_many) in
        [(0, 1, 2), (1, 4, 0), (2, 0, 8), (3, 16, 0), (4, 32, 64)]
    {
        let delays = [ready.repeat(ready_many), scheduled.repeat(scheduled_many)].concat();
        push(&nodes[node], "pools", &delays).await.unwrap();
    }
    let tells = |ready: f64, scheduled: f64| {
        depth("pools", "ready") == Some(ready)
            && depth("pools", "scheduled") == Some(scheduled)
            && gauge("duly_queue_due", "queue=\"pools\",within=\"1h\"") == Some(scheduled)
    };
    settled("all of each store", || tells(53.0, 74.0)).await;
    stop(&nodes.remove(4)).await;
    settled("without the last store", || tells(21.0, 10.0)).await;
    stop(&nodes.remove(3)).await;
    settled("one is left on its store", || tells(21.0, 10.0)).await;
    for node in &nodes {
        stop(node).await;
    }
    assert!(tells(0.0, 0.0));
}

#[tokio::test]
async fn a_queue_that_nobody_consumes_is_reported_by_all() {
    let _alone = ALONE.lock().await;
    let url = fresh();
    let nodes = [
        paused(&url, "others-a").await,
        paused(&url, "others-b").await,
    ];
    let delays: Vec<_> = (0..64).map(|number| secs(number % 2 * 1_000)).collect();
    push(&nodes[0], "left-alone", &delays).await.unwrap();
    let tells = |state| depth("left-alone", state) == Some(32.0);
    settled("it is told of", || tells("ready") && tells("scheduled")).await;
    for node in &nodes {
        stop(node).await;
    }
}

#[tokio::test]
async fn where_nobody_consumes_those_who_push_report_what_waits() {
    let _alone = ALONE.lock().await;
    let url = fresh();
    let mut pushers = Vec::new();
    for _ in 0..3 {
        pushers.push(counting(&url).publish_only().start().await.unwrap());
    }
    let queue = pushers[0].queue_named::<u64>("given-up").unwrap();
    for delay in [secs(0), secs(1_000)] {
        queue.push_many(0..512, delay).await.unwrap(); // in every bucket
    }
    let tells = |state| depth("given-up", state) == Some(512.0);
    let tells = || tells("ready") && tells("scheduled");
    settled("they report it", tells).await;
    // Due later than it was pushed, and nobody moves it.
    let overdue = pushers[0].queue_named::<u64>("overdue").unwrap();
    let delay = Duration::from_millis(50);
    overdue.push_many(0..100, delay).await.unwrap();
    overdue.push(0, 2 * delay).await.unwrap();
    let oldest = || gauge("duly_queue_oldest_ready_seconds", "queue=\"overdue\"");
    until("it grows old", || oldest() > Some(0.3)).await;
    stop(&pushers.remove(0)).await;
    stop(&pushers.remove(0)).await;
    settled("the last one reports it", tells).await;
    let consumer = paused(&url, "something").await;
    settled("it is reported once", tells).await;
    stop(&pushers.remove(0)).await;
    settled("the consumer tells it", tells).await;
    stop(&consumer).await;
    assert_eq!(depth("given-up", "ready"), Some(0.0));
}

#[tokio::test]
async fn a_queue_that_was_long_empty_and_is_consumed_nowhere_is_reported_again() {
    let _alone = ALONE.lock().await;
    let url = fresh();
    let builder = counting(&url).register_as(Annotation::new("deserted"), Nothing);
    let consumer = builder.start().await.unwrap();
    let queue = consumer.queue_named::<u64>("deserted").unwrap();
    queue.push_many(0..512, Duration::ZERO).await.unwrap(); // in every bucket
    settled("all are handled", || {
        depth("deserted", "ready") == Some(0.0)
    })
    .await;
    stop(&consumer).await;
    let before = calls("stats");
    let reporting = counting(&url).publish_only().start().await.unwrap();
    until("it is counted", || calls("stats") > before).await;
    asks_no_bucket().await; // each was empty for so long that it is left alone
    let pusher = Bus::builder()
        .only_registered()
        .settings(Default::default());
    let pusher = pusher.store_url(&url).publish_only().start().await.unwrap();
    let queue = pusher.queue_named::<u64>("deserted").unwrap();
    queue.push_many(0..512, secs(1_000)).await.unwrap();
    until("it is reported", || {
        depth("deserted", "scheduled") == Some(512.0)
    })
    .await;
    stop(&pusher).await;
    stop(&reporting).await;
}

#[tokio::test]
async fn what_falls_due_soon_is_told_and_how_long_the_oldest_waits() {
    let _alone = ALONE.lock().await;
    for url in ["memory:".to_owned(), fresh()] {
        let bus = paused(&url, "soon").await;
        assert_eq!(depth("soon", "ready").unwrap_or(0.0), 0.0);
        // Far from the edges, or a slow machine sees another number.
        let delays = [5, 40, 41, 300, 301, 302, 2_000, 9_000].map(secs);
        push(&bus, "soon", &delays[1..]).await.unwrap();
        let due = |within: &str| {
            gauge(
                "duly_queue_due",
                &format!("queue=\"soon\",within=\"{within}\""),
            )
        };
        until("an hour ahead", || due("1h") == Some(6.0)).await;
        assert_eq!(
            (due("10s"), due("1m"), due("10m")),
            (Some(0.0), Some(2.0), Some(5.0))
        );
        push(&bus, "soon", &[Duration::ZERO]).await.unwrap();
        let oldest = || gauge("duly_queue_oldest_ready_seconds", "queue=\"soon\"").unwrap_or(0.0);
        until("it grows old", || oldest() > 0.3).await;
        stop(&bus).await;
        assert_eq!((oldest(), due("1h")), (0.0, Some(0.0)));
    }
}

#[tokio::test]
async fn a_bucket_that_was_empty_is_counted_as_soon_as_something_comes() {
    let _alone = ALONE.lock().await;
    let often = MetricsChoices {
        depths_every: Some(Duration::from_millis(500)),
        ..MetricsChoices::default()
    };
    let builder = counting("memory:").metrics(often);
    let builder = builder.register_as(Annotation::new("sleepy"), Nothing);
    let bus = builder.start().await.unwrap();
    // Every bucket has had an event, so that it is there to be asked.
    let queue = bus.queue_named::<u64>("sleepy").unwrap();
    queue.push_many(0..512, Duration::ZERO).await.unwrap();
    let all_are_gone = async {
        while bus.stats("sleepy").await.unwrap() != Default::default() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let gone = tokio::time::timeout(PATIENCE, all_are_gone).await;
    gone.expect("every event is handled");
    assert_eq!(bus.bucket_stats("sleepy").await.unwrap().len(), 8);
    asks_no_bucket().await; // so it is known that all are empty
    push(&bus, "sleepy", &[secs(100); 160]).await.unwrap();
    // Less than it takes until empty buckets are counted anyway.
    let soon = secs(10);
    let seen = until("it is seen", || depth("sleepy", "scheduled") == Some(160.0));
    let seen = tokio::time::timeout(soon, seen).await;
    seen.expect("at the next sample");
    stop(&bus).await;
}

/// Of queues that nobody consumes, as all are to a server.
#[tokio::test]
async fn many_names_are_not_all_counted_in_each_of_the_first_samples() {
    let _alone = ALONE.lock().await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let pusher = Bus::builder().only_registered();
    let pusher = pusher.settings(Default::default()).publish_only();
    let pusher = pusher.shared_store(Arc::clone(&store));
    let pusher = pusher.start().await.unwrap();
    for number in 0..4_000 {
        let queue = pusher.queue_named::<u64>(&format!("of-many-{number:04}"));
        let queue = queue.unwrap();
        let id = queue.push(7, secs(1_000)).await.unwrap().id();
        if number % 1_000 != 999 {
            let _ = queue.cancel(id).await.unwrap();
        }
    }
    let before = (calls("stats"), calls("buckets"));
    let builder = counting("memory:").shared_store(store);
    let reporting = builder.publish_only().start().await.unwrap();
    let all = || {
        let page = crate::kit::PAGE.render();
        let lines = page.lines().filter(|line| {
            line.starts_with("duly_queue_depth{") && line.contains("state=\"scheduled\"")
        });
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum::<f64>()
    };
    until("all is reported", || all() == 4.0).await;
    until("some samples", || calls("buckets") - before.1 >= 10.0).await;
    let samples = calls("buckets") - before.1;
    let counts = calls("stats") - before.0;
    assert!(counts <= samples * 1_100.0, "{counts} in {samples} samples");
    stop(&reporting).await;
    stop(&pusher).await;
}

/// How often the store was called for something.
fn calls(op: &str) -> f64 {
    gauge("duly_store_call_seconds_count", &format!("op=\"{op}\"")).unwrap_or(0.0)
}

/// Waits for a sample that asks no bucket how it is.
async fn asks_no_bucket() {
    let both = || (calls("stats"), calls("buckets"));
    let mut since = both();
    until("a sample that asks no bucket", || {
        let (asked, begun) = both();
        if asked != since.0 {
            since = (asked, begun);
        }
        begun >= since.1 + 2.0 // the first of them may have begun before
    })
    .await;
}

/// A machine whose clock is behind.
#[derive(Debug)]
struct Behind(SystemClock);

impl Clock for Behind {
    fn wall_us(&self) -> u64 {
        self.0.wall_us() - 30_000_000
    }

    fn mono(&self) -> Mono {
        self.0.mono()
    }
}

#[tokio::test]
async fn the_skew_says_how_far_the_stores_clock_is_ahead() {
    let _alone = ALONE.lock().await;
    let clock = Arc::new(Behind(SystemClock::new()));
    let builder = counting(&fresh()).clock(clock);
    let bus = builder
        .register_as(Annotation::new("skewed"), crate::kit::Nothing)
        .start()
        .await
        .unwrap();
    push(&bus, "skewed", &[secs(1_000)]).await.unwrap();
    let skew = || gauge("duly_clock_skew_seconds", "").unwrap_or(0.0);
    settled("thirty seconds", || (skew() - 30.0).abs() < 1.0).await;
    stop(&bus).await;
}

#[tokio::test]
async fn skew_and_live_nodes_are_told_though_no_depth_is_sampled() {
    let _alone = ALONE.lock().await;
    let never = MetricsChoices {
        depths_every: Some(Duration::ZERO),
        ..MetricsChoices::default()
    };
    let skew = || gauge("duly_clock_skew_seconds", "").unwrap_or(0.0);
    let live = |nodes: f64| gauge("duly_live_nodes", "") == Some(nodes);
    let start = async |url: &str, behind: bool| {
        let mut builder = counting(url).metrics(never);
        if behind {
            builder = builder.clock(Arc::new(Behind(SystemClock::new())));
        }
        let builder = builder.register_as(Annotation::new("unsampled"), Nothing);
        builder.start().await.unwrap()
    };
    let url = fresh();
    let first = start(&url, true).await;
    settled("a skew", || (skew() - 30.0).abs() < 1.0 && live(1.0)).await;
    let second = start(&url, false).await;
    settled("another node", || (skew() - 30.0).abs() < 1.0 && live(2.0)).await;
    stop(&first).await;
    settled("it is gone", || skew().abs() < 1.0 && live(1.0)).await;
    stop(&second).await;
    assert!(live(0.0));
    let alone = start("memory:", false).await;
    assert!(live(1.0));
    stop(&alone).await;
    assert!(live(0.0));
}
