//! Connections through what happens to them on the way, and what a server answers for a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use duly::store::{RedisOptions, RedisStore};
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::redis_store::kit::{Read, fresh, pusher, stop, until};
use crate::servers::{Address, Fault, Proxy, Redis, RedisOptions as ServerOptions};

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
    let proxy = Proxy::before(server.address());
    let (url, _) = fresh(&proxy.url());
    let (read, bus) = Read::start(&url).await;
    let (pushing, queue) = pusher(&url).await;
    let first = queue.push_now("a letter".to_owned()).await.unwrap().id();
    until("it is handled", async || read.seen().contains_key(&first)).await;

    let made = proxy.counts().connections;
    let forgotten = proxy.forget_all() as u64;
    assert!(forgotten >= 8, "{forgotten} connections of two buses");
    until("all are made again by themselves", async || {
        proxy.counts().connections >= made + forgotten
    })
    .await;
    proxy.take_swallowed();
    let last = queue.push_now("a letter".to_owned()).await.unwrap().id();
    until("it is handled", async || read.seen().contains_key(&last)).await;
    let lost = proxy.take_swallowed();
    let called = lost
        .iter()
        .filter(|piece| has(piece, "CALL") || has(piece, "EVAL"));
    assert_eq!(called.count(), 0, "sent where nobody hears it: {lost:?}");
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
    queue.push_now("a letter".to_owned()).await.unwrap();
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
        match queue.push_now("a letter".to_owned()).await {
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
    let proxy = Proxy::before(server.clone());
    let (url, _) = fresh(&proxy.url());
    let (read, bus) = Read::start(&url).await;
    let (pushing, queue) = pusher(&url).await;
    let push = async || queue.push_now("a letter".to_owned()).await;
    let first = push().await.expect("a push").id();
    until("it is handled", async || read.seen().contains_key(&first)).await;
    let said = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&said);
    proxy.cut_all();
    proxy.on_request(move |piece| {
        let meant = greets(piece) == at_greeting;
        (meant && count.fetch_add(1, Ordering::Relaxed) < 12).then_some(Fault::Say(error))
    });
    until(error, async || {
        let _ = push().await;
        said.load(Ordering::Relaxed) >= 12
    })
    .await;
    let began = Instant::now();
    until(error, async || push().await.is_ok()).await;
    let last = push().await.expect("a push").id();
    until(error, async || read.seen().contains_key(&last)).await;
    until(error, async || bus.pause("letters").await.is_ok()).await;
    let other = push().await.expect("a push").id();
    until(error, async || bus.resume("letters").await.is_ok()).await;
    until(error, async || read.seen().contains_key(&other)).await;
    let took = began.elapsed();
    stop(&pushing).await;
    stop(&bus).await;
    (format!("{at_greeting} {error}"), took)
}
