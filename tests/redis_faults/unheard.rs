//! A process that pushes and handles, alone, hears of what its own calls did whose reply is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::Annotation;
use duly::prelude::*;
use duly::testing::Probe;

use crate::redis_faults::pushes::{proxies_before, until};
use crate::redis_faults::scripts::Call;
use crate::redis_faults::server;
use crate::servers::{Cluster, Fault, Proxy, prefix};

const LETTERS: Annotation = Annotation::new("letters").buckets(1);

/// How long an event may take; without a word a bucket is looked at each ten minutes.
const PATIENCE: Duration = Duration::from_secs(10);

/// A bus that pushes and handles, behind a proxy.
struct Alone {
    bus: Bus,
    probe: Probe<String>,
    queue: Queue<String>,
}

impl Alone {
    async fn start(url: &str, probe: Probe<String>) -> Self {
        let url = format!("{url}?prefix={}", prefix());
        let builder = Bus::builder().settings(Default::default()).store_url(&url);
        let builder = builder
            .only_registered()
            .register_as(LETTERS, probe.clone());
        let bus = builder.start().await.expect("a start");
        let queue = bus.queue_named("letters").expect("a queue");
        let alone = Self { bus, probe, queue };
        // Every server knows the scripts from now on, and the queue is at rest.
        for number in 1..=2 {
            let first = alone.queue.push("first".to_owned(), When::Now).await;
            first.expect("it is pushed");
            until("it is handled", async || alone.probe.count() == number).await;
        }
        alone.rests().await;
        alone
    }

    /// Waits until nothing waits or is leased.
    async fn rests(&self) {
        until("the queue is at rest", async || {
            let stats = self.bus.stats("letters").await.expect("stats");
            stats.ready + stats.leased + stats.scheduled == 0
        })
        .await;
    }

    /// Whether so many attempts have started within the time.
    async fn handles(&self, many: usize) -> bool {
        let handled = async {
            while self.probe.count() < many {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, handled).await.is_ok()
    }

    async fn stop(self) {
        self.bus.shutdown(PATIENCE).await.expect("a stop");
    }
}

/// Cuts the connection once, after the server has carried out what `is_it`.
fn cut_once(proxies: &[Proxy], is_it: impl Fn(&[u8]) -> bool + Send + Sync + 'static) {
    let (is_it, times) = (Arc::new(is_it), Arc::new(AtomicUsize::new(0)));
    for proxy in proxies {
        let (is_it, times) = (Arc::clone(&is_it), Arc::clone(&times));
        proxy.on_request(move |bytes| {
            let is_first = is_it(bytes) && times.fetch_add(1, Ordering::Relaxed) == 0;
            is_first.then_some(Fault::CutAfter)
        });
    }
}

fn has_needle(bytes: &[u8]) -> bool {
    bytes.windows(6).any(|part| part == b"needle")
}

/// The reply of one push is lost: it runs, and so do those behind it.
async fn a_reply_of_a_push_is_lost(url: &str, proxies: &[Proxy]) {
    let alone = Alone::start(url, Probe::new()).await;
    cut_once(proxies, has_needle);
    let pushed = alone.queue.push("needle".to_owned(), When::Now).await;
    pushed.expect("it is pushed, the second time");
    let cuts: u64 = proxies.iter().map(|proxy| proxy.counts().cuts).sum();
    assert_eq!(cuts, 1, "its reply was lost");
    assert!(alone.handles(3).await, "nobody was told of it");
    alone.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_whose_reply_is_lost_is_handled_by_who_pushed_it() {
    let redis = server();
    let proxy = Proxy::before(redis.address());
    a_reply_of_a_push_is_lost(&proxy.url(), std::slice::from_ref(&proxy)).await;
}

/// There the client itself sends the call again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_whose_reply_is_lost_is_handled_by_who_pushed_it_on_a_cluster() {
    let cluster = Cluster::masters(3);
    let (proxies, far) = proxies_before(&cluster).await;
    a_reply_of_a_push_is_lost(&far, &proxies).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_that_was_settled_without_a_reply_is_in_time() {
    let redis = server();
    let proxy = Proxy::before(redis.address());
    let fails = Probe::answering(|event: &Event<String>, _cx| {
        if event.payload == "needle" && event.attempt() == 1 {
            let delay = Duration::from_millis(1_500);
            return Err(Failure::retry_after(delay, "not yet"));
        }
        Ok(())
    });
    let alone = Alone::start(&proxy.url(), fails).await;
    let settle = Call::of("settle");
    cut_once(std::slice::from_ref(&proxy), move |bytes| {
        settle.is_in(bytes)
    });
    let pushed = alone.queue.push("needle".to_owned(), When::Now).await;
    pushed.expect("it is pushed");
    assert!(alone.handles(4).await, "nobody was told when it is due");
    assert_eq!(proxy.counts().cuts, 1, "the reply of its settle was lost");
    alone.stop().await;
}

/// A settle that fails by what is stored is made again after longer and longer times, though nobody
/// knows whether it was carried out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settle_that_a_broken_key_fails_is_repeated_without_haste() {
    let redis = server();
    let proxy = Proxy::before(redis.address());
    let alone = Alone::start(&proxy.url(), Probe::new()).await;
    let settle = Call::of("settle");
    let settles = Arc::new(AtomicUsize::new(0));
    let made = Arc::clone(&settles);
    proxy.on_request(move |bytes| {
        made.fetch_add(usize::from(settle.is_in(bytes)), Ordering::Relaxed);
        None
    });
    let key = redis.cli(&["KEYS", "*:{letters:0}:outbox"]);
    redis.cli(&["DEL", &key]);
    redis.cli(&["SET", &key, "not a stream"]);
    let pushed = alone.queue.push("settled late".to_owned(), When::Now).await;
    pushed.expect("it is pushed");
    let count = || settles.load(Ordering::Relaxed);
    until("it is settled again", async || count() > 1).await;
    let before = count();
    tokio::time::sleep(Duration::from_secs(2)).await; // how many there are in this time
    let many = count() - before;
    assert!(many < 20, "{many} settles in two seconds");
    redis.cli(&["DEL", &key]);
    alone.rests().await;
    alone.stop().await;
}
