//! Pushes whose answer is lost, whose server has stopped or is gone, and whose caller goes away.

#![allow(clippy::disallowed_methods)] // real time: this is about real processes

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use duly::Annotation;
use duly::config::QueueChoices;
use duly::prelude::*;
use duly::store::{Durability, RedisOptions, RedisStore};
use duly::testing::Probe;
use tokio::task::JoinSet;

use crate::redis_faults::server;
use crate::servers::{Address, Cluster, Fault, Proxy, Redis, prefix};

const LETTERS: Annotation = Annotation::new("letters").buckets(1);

/// A bus that only pushes to one queue.
async fn pusher(store: RedisStore, buckets: u16) -> (Bus, Queue<String>) {
    let choices = QueueChoices {
        buckets: Some(buckets),
        ..QueueChoices::default()
    };
    let builder = Bus::builder().settings(Default::default()).store(store);
    let builder = builder.only_registered().publish_only();
    let bus = builder.queue("letters", choices).start().await;
    let bus = bus.expect("a start");
    let queue = bus.queue_named("letters").expect("a legal name");
    (bus, queue)
}

pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let gives_up = Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(Instant::now() < gives_up, "waited for a minute: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The answer of one push is lost, its event runs, and so many others end meanwhile that it is
/// forgotten; only then is the push tried again.
async fn an_answer_is_lost(near: &str, far: &str, proxies: &[Proxy]) {
    let small = || RedisOptions::new().finished_max(1).finished_total(5);
    let name = prefix();
    let near = format!("{near}?prefix={name}");
    let store = RedisStore::open_with(&near, small())
        .await
        .expect("a store");
    let probe = Probe::<String>::new();
    let builder = Bus::builder().settings(Default::default()).store(store);
    let builder = builder
        .only_registered()
        .register_as(LETTERS, probe.clone());
    let consumer = builder.start().await.expect("a start");
    let others = consumer.queue_named::<String>("letters").expect("a queue");

    let far = format!("{far}?prefix={name}");
    let store = RedisStore::open_with(&far, small()).await.expect("a store");
    let (bus, queue) = pusher(store, 1).await;
    queue
        .push("first".to_owned(), When::Now)
        .await
        .expect("it is pushed");
    until("the first is handled", async || probe.count() == 1).await;

    let (tries, are_others_over) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    for proxy in proxies {
        let (tries, are_over) = (Arc::clone(&tries), Arc::clone(&are_others_over));
        proxy.on_request(move |bytes| {
            if !bytes.windows(6).any(|part| part == b"needle") {
                return None;
            }
            if tries.fetch_add(1, Ordering::Relaxed) == 0 {
                return Some(Fault::CutAfter);
            }
            (!are_over.load(Ordering::Acquire)).then_some(Fault::Wait)
        });
    }
    let lost = tokio::spawn({
        let queue = queue.clone();
        async move { queue.push("needle".to_owned(), When::Now).await }
    });
    until("the lost one is handled", async || probe.count() == 2).await;
    for number in 0..40 {
        let other = others.push(format!("other {number}"), When::Now);
        other.await.expect("it is pushed");
    }
    until("all others are over", async || {
        let stats = consumer.stats("letters").await.expect("stats");
        probe.count() == 42 && stats.ready + stats.leased == 0
    })
    .await;
    are_others_over.store(true, Ordering::Release);
    let lost = lost.await.expect("no panic");
    proxies.iter().for_each(Proxy::heal);

    assert!(tries.load(Ordering::Relaxed) >= 2, "it was tried again");
    let error = lost.expect_err("nobody knows");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    others
        .push("last".to_owned(), When::Now)
        .await
        .expect("it is pushed");
    until("the last is handled", async || {
        probe.payloads().iter().any(|payload| payload == "last")
    })
    .await;
    let payloads = probe.payloads();
    let needles = payloads.iter().filter(|payload| *payload == "needle");
    assert_eq!(needles.count(), 1, "it was pushed under two ids");
    bus.shutdown(Duration::from_secs(5)).await.expect("a stop");
    consumer
        .shutdown(Duration::from_secs(5))
        .await
        .expect("a stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_whose_answer_is_lost_is_never_made_anew() {
    let redis = server();
    let proxy = Proxy::before(redis.address());
    an_answer_is_lost(&redis.url(), &proxy.url(), std::slice::from_ref(&proxy)).await;
}

/// There the client itself sends a call again when its connection ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_whose_answer_is_lost_is_never_made_anew_on_a_cluster() {
    let cluster = Cluster::masters(3);
    let (proxies, far) = proxies_before(&cluster).await;
    an_answer_is_lost(&cluster.url(), &far, &proxies).await;
}

/// Returns proxies before the three masters of a cluster, which name these to their clients, and the
/// URL of the cluster behind them.
pub(super) async fn proxies_before(cluster: &Cluster) -> (Vec<Proxy>, String) {
    let proxies: Vec<_> = (0..3)
        .map(|number| {
            let node = cluster.node(number);
            let proxy = Proxy::before(Address::Tcp(node.port));
            let (bus_port, port) = (node.port + 10_000, proxy.port().to_string());
            node.cli(&[
                "CONFIG",
                "SET",
                "cluster-announce-bus-port",
                &bus_port.to_string(),
            ]);
            node.cli(&["CONFIG", "SET", "cluster-announce-port", &port]);
            proxy
        })
        .collect();
    let far = format!("redis-cluster://127.0.0.1:{}", proxies[0].port());
    until("every node names the proxies", async || {
        (0..3).all(|number| {
            let slots = cluster.node(number).cli(&["CLUSTER", "SLOTS"]);
            proxies
                .iter()
                .all(|proxy| slots.contains(&proxy.port().to_string()))
        })
    })
    .await;
    (proxies, far)
}

/// What a push takes at most here.
const TIMEOUT: Duration = Duration::from_millis(1_500);

fn hasty() -> RedisOptions {
    RedisOptions::new().retry_for(Duration::from_millis(500))
}

async fn hasty_store(redis: &Redis) -> RedisStore {
    let url = format!(
        "{}?prefix={}&timeout=1s&connect_timeout=1s",
        redis.url(),
        prefix()
    );
    RedisStore::open_with(&url, hasty()).await.expect("a store")
}

/// A server that has stopped answers nothing: pushes fail in their time, those whose callers go
/// away are never stored, and beyond a bound they are refused at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_to_a_server_that_has_stopped_end_in_their_time() {
    const CALLERS: usize = 20_000;
    const PATIENCE: Duration = Duration::from_millis(300);
    let redis = server();
    let (bus, queue) = pusher(hasty_store(&redis).await, 8).await;
    queue
        .push_many(vec!["before".to_owned(); 100], Duration::from_secs(3_600))
        .await
        .expect("pushed");
    redis.stop_process();

    let slowest = Arc::new(Mutex::new(Duration::ZERO));
    // By how much the machine lets an impatient caller wait longer than he wants to.
    let lag = Arc::new(Mutex::new(Duration::ZERO));
    let mut pushes = JoinSet::new();
    for number in 0..CALLERS {
        let queue = queue.clone();
        let (slowest, lag) = (Arc::clone(&slowest), Arc::clone(&lag));
        pushes.spawn(async move {
            let began = Instant::now();
            let event = queue
                .event("x".repeat(200))
                .after(Duration::from_secs(3_600));
            if number % 500 == 0 {
                let event = event.durable(Durability::OsCache);
                let error = event.push().await.expect_err("nothing answers");
                let mut slowest = slowest.lock().expect("nobody panics");
                *slowest = began.elapsed().max(*slowest);
                return Some(error.kind());
            }
            // He has no patience.
            let sent = tokio::time::timeout(PATIENCE, event.push()).await;
            let mut lag = lag.lock().expect("nobody panics");
            *lag = began.elapsed().saturating_sub(PATIENCE).max(*lag);
            sent.ok()?.err().map(|error| error.kind())
        });
    }
    let kinds: Vec<_> = pushes.join_all().await.into_iter().flatten().collect();
    let slowest = *slowest.lock().expect("nobody panics");
    let lag = *lag.lock().expect("nobody panics");
    println!(
        "{} pushes answered, the slowest after {slowest:?}; the machine is {lag:?} late",
        kinds.len()
    );
    let is_honest = |kind: &ErrorKind| {
        matches!(
            kind,
            ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::Full
        )
    };
    assert!(kinds.iter().all(is_honest), "{kinds:?}");
    // It once took 41 seconds. A push has several waits, each of which the machine may prolong.
    let most = TIMEOUT * 8 + lag * 4;
    assert!(slowest < most, "a push took {slowest:?} of {most:?}");

    redis.cont();
    let stored = async || {
        let stats = bus.stats("letters").await;
        stats.map_or(0, |stats| stats.scheduled)
    };
    until("the server answers", async || stored().await >= 100).await;
    let after = queue.push("after".to_owned(), Duration::from_secs(3_600));
    after.await.expect("it is pushed");
    let more = stored().await - 101;
    println!("{more} of {CALLERS} were stored all the same");
    // Each batch carries those whose callers still wait, and late machines let them wait for more.
    let batches = 1 + lag.as_millis().div_ceil(PATIENCE.as_millis());
    let most = (1_000 * batches).min(CALLERS as u128 / 2);
    assert!(
        more as u128 <= most,
        "{more} events were stored that nobody waited for, of {most} in {batches} batches"
    );
    bus.shutdown(Duration::from_secs(5)).await.expect("a stop");
}

/// A server that is gone: each push, the first to its bucket as well, is tried for as long as was
/// promised, whatever durability it asks for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_to_a_server_that_is_gone_are_tried_for_their_time() {
    let mut redis = server();
    let (bus, queue) = pusher(hasty_store(&redis).await, 64).await;
    for round in 0..5 {
        until("the server answers", async || {
            queue.push("up".to_owned(), When::Now).await.is_ok()
        })
        .await;
        redis.kill();
        let mut pushes = JoinSet::new();
        for number in 0..64 {
            let event = queue
                .event("down".to_owned())
                .key(format!("{round} {number}"));
            let event = match number % 4 {
                0 => event.durable(Durability::Disk),
                1 => event.durable(Durability::Replicated(1)),
                _ => event,
            };
            let began = Instant::now();
            pushes.spawn(async move { (event.push().await, began.elapsed()) });
        }
        for (sent, took) in pushes.join_all().await {
            let error = sent.expect_err("nothing is there");
            let is_honest = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
            assert!(is_honest, "{error}");
            // The last rest is not begun.
            assert!(took > Duration::from_millis(240), "{error}, after {took:?}");
        }
        redis.restart();
    }
    bus.shutdown(Duration::from_secs(5)).await.expect("a stop");
}
