//! Connections through what happens to them on the way, and what a server answers for a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use duly::ErrorKind;
use duly::store::operation::StoreOp;
use duly::store::{RedisOptions, RedisStore};
use duly::time::When;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::redis_store::kit::{Bare, Pair, Read, fresh, pusher, stop, until};
use crate::servers::{Address, Cluster, Fault, Proxy, Redis, RedisOptions as ServerOptions};

fn tcp() -> Redis {
    Redis::start(ServerOptions {
        tcp: true,
        ..ServerOptions::default()
    })
}

fn has(piece: &[u8], word: &str) -> bool {
    piece.windows(word.len()).any(|it| it == word.as_bytes())
}

/// Whether a piece is the greeting of a connection.
fn greets(piece: &[u8]) -> bool {
    has(piece, "HELLO") || has(piece, "CLIENT")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_forgotten_on_the_way_is_replaced_before_the_next_event_needs_it() {
    let server = tcp();
    let pair = Pair::before(server.address()).await;
    let proxy = &pair.proxy;
    let made = proxy.counts().connections;
    let forgotten = proxy.forget_all() as u64;
    assert!(forgotten >= 8, "{forgotten} connections of two buses");
    until("all are made again by themselves", async || {
        proxy.counts().connections >= made + forgotten
    })
    .await;
    proxy.take_swallowed();
    pair.until_handled(pair.push().await.expect("a push")).await;
    let lost = proxy.take_swallowed();
    let called = lost
        .iter()
        .filter(|piece| has(piece, "CALL") || has(piece, "EVAL"));
    assert_eq!(called.count(), 0, "sent where nobody hears it: {lost:?}");
    pair.stop().await;
}

/// After so long without a reply a connection is idle.
const IDLE: Duration = Duration::from_millis(1_100);

/// A call waits for 40 s here, and what was forgotten is found by a probe after 35 s: whatever takes less
/// was found out by the call.
const PATIENT: &str = "&timeout=40s&connect_timeout=20s";
const MOMENT: Duration = Duration::from_secs(15);

/// Calls on every connection of a store, after they were forgotten, and returns how long it took until
/// all are right again.
async fn called_after_silence(bare: &Bare, forget: impl FnOnce()) -> Duration {
    let call = async |request: u64| {
        let pushed = bare.push(bare.new_id(), When::Now).await;
        let fetched = bare.fetch(request, 1).await;
        let reaped = bare.typed(StoreOp::reap(Vec::new(), 10)).await;
        pushed.is_ok() && fetched.is_ok() && reaped.is_ok()
    };
    assert!(call(1).await, "before");
    sleep(IDLE).await;
    forget();
    let began = Instant::now();
    let mut request = 2;
    while !call(request).await {
        request += 1;
        assert!(request < 20, "never right again");
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_call_after_a_silent_forgetting_is_late_by_a_moment_only() {
    let server = tcp();
    let proxy = Proxy::before(server.address());
    let (url, _) = fresh(&proxy.url());
    let bare = Bare::open(&format!("{url}{PATIENT}")).await;
    let took = called_after_silence(&bare, || {
        proxy.forget_all();
    })
    .await;
    assert!(took < MOMENT, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_before_nodes_of_a_cluster_ends_with_it() {
    let cluster = Cluster::masters(3);
    let proxies: Vec<_> = cluster
        .ports()
        .map(|port| Proxy::before(Address::Tcp(port)))
        .collect();
    let ports: Vec<_> = proxies.iter().map(Proxy::port).collect();
    let (url, _) = fresh(&cluster.announce(&ports));
    let bare = Bare::open(&format!("{url}{PATIENT}")).await;
    let took = called_after_silence(&bare, || {
        for proxy in &proxies {
            proxy.forget_all();
        }
    })
    .await;
    assert!(took < MOMENT, "{took:?}");

    // Now new connections are swallowed, too, until the hole is gone.
    let (read, bus) = Read::start(&url).await;
    let (pushing, queue) = pusher(&url).await;
    let first = queue
        .push("a letter".to_owned(), When::Now)
        .await
        .unwrap()
        .id();
    until("it is handled", async || read.seen().contains_key(&first)).await;
    for proxy in &proxies {
        proxy.on_request(|_| Some(Fault::Hang));
    }
    let refused = queue.push("a letter".to_owned(), When::Now).await;
    let refused = refused.expect_err("nothing comes through");
    let may = [ErrorKind::Unknown, ErrorKind::Unavailable];
    assert!(may.contains(&refused.kind()), "{refused}");
    for proxy in &proxies {
        proxy.heal();
    }
    let pushed = async || queue.push("a letter".to_owned(), When::Now).await.is_ok();
    until("a push succeeds", pushed).await;
    let last = queue
        .push("a letter".to_owned(), When::Now)
        .await
        .unwrap()
        .id();
    until("it is handled", async || read.seen().contains_key(&last)).await;
    stop(&pushing).await;
    stop(&bus).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_while_the_server_loads_waits_until_it_has_loaded() {
    let server = tcp();
    let proxy = Proxy::before(server.address());
    let said = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&said);
    proxy.on_request(move |piece| {
        let answers = greets(piece) || has(piece, "INFO"); // so does a server that loads
        let loads = !answers && count.fetch_add(1, Ordering::Relaxed) < 5;
        loads.then_some(Fault::Say(
            "-LOADING Redis is loading the dataset in memory\r\n",
        ))
    });
    let (url, _) = fresh(&proxy.url());
    let store = RedisStore::open_with(&url, RedisOptions::new()).await;
    assert!(store.is_ok(), "{store:?}");
    assert!(said.load(Ordering::Relaxed) > 5);
}

/// Pushes while every connection is cut ten times a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_succeeds_while_connections_are_killed_ten_times_a_second() {
    let server = tcp();
    let proxy = Arc::new(Proxy::before(server.address()));
    let (url, _) = fresh(&proxy.url());
    let (pushing, queue) = pusher(&url).await;
    queue.push("a letter".to_owned(), When::Now).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let taken = Arc::new(AtomicUsize::new(0));
    let cutting = std::thread::spawn({
        let (proxy, is_over) = (Arc::clone(&proxy), Arc::clone(&is_over));
        let taken = Arc::clone(&taken);
        move || {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
                // On a busy machine a connection may not live long enough to carry anything.
                if taken.swap(0, Ordering::Relaxed) > 0 {
                    proxy.cut_all();
                }
            }
        }
    });
    let before = proxy.counts().cuts;
    let (mut pushed, mut failed) = (0, Vec::new());
    while proxy.counts().cuts < before + 200 {
        match queue.push("a letter".to_owned(), When::Now).await {
            Ok(_) => {
                pushed += 1;
                taken.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => failed.push(error.to_string()),
        }
    }
    is_over.store(true, Ordering::Relaxed);
    cutting.join().unwrap();
    assert_eq!(
        failed,
        Vec::<String>::new(),
        "beside {pushed} that were taken"
    );
    stop(&pushing).await;
}

/// Within seconds: the longest pause between two attempts is two, and the machine may be busy.
const SECONDS: Duration = Duration::from_secs(20);

/// What Redis answers for a moment.
const ERRORS: &[&str] = &[
    "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    "-NOAUTH Authentication required.\r\n",
    "-NOPERM this user has no permissions to run the 'hello' command\r\n",
    "-READONLY You can't write against a read only replica.\r\n",
    "-LOADING Redis is loading the dataset in memory\r\n",
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL.\r\n",
    "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
    "-ERR max number of clients reached\r\n",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_what_redis_answers_for_a_moment_every_connection_is_right_within_seconds() {
    let server = tcp();
    let address = server.address();
    let cases = ERRORS.iter().flat_map(|error| {
        [false, true].map(|at_greeting| goes_on_after(&address, error, at_greeting))
    });
    for (error, took) in join_all(cases).await {
        assert!(took < SECONDS, "{error}: {took:?}");
    }
}

async fn goes_on_after(
    server: &Address,
    error: &'static str,
    at_greeting: bool,
) -> (String, Duration) {
    let pair = Pair::before(server.clone()).await;
    let said = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&said);
    pair.proxy.cut_all();
    pair.proxy.on_request(move |piece| {
        let meant = greets(piece) == at_greeting;
        (meant && count.fetch_add(1, Ordering::Relaxed) < 12).then_some(Fault::Say(error))
    });
    until(error, async || {
        let _ = pair.push().await;
        said.load(Ordering::Relaxed) >= 12
    })
    .await;
    let began = Instant::now();
    until(error, async || pair.push().await.is_ok()).await;
    pair.until_handled(pair.push().await.expect("a push")).await;
    until(error, async || pair.handling.pause("letters").await.is_ok()).await;
    let other = pair.push().await.expect("a push");
    until(error, async || {
        pair.handling.resume("letters").await.is_ok()
    })
    .await;
    pair.until_handled(other).await;
    let took = began.elapsed();
    pair.stop().await;
    (format!("{at_greeting} {error}"), took)
}

/// Its connections then run on the runtime of whoever opens it.
#[test]
fn a_store_opens_and_works_without_a_thread_of_its_own() {
    let part = "redis_store::leftovers::live_events_among_cancelled_ones_stay_ready_and_in_order";
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    command.args([part, "--exact", "--test-threads=1"]);
    command.env("RUST_MIN_STACK", (1_u64 << 47).to_string()); // more than any address space has
    let done = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("1 passed"), "{text}");
}
