//! The load of a server: publishing, bulks, pairs of consume and ack, the hand-off to a parked poll,
//! and publishing beside many parked polls, over HTTP on this machine, beside a bare axum server that
//! stores nothing.
//!
//! ```text
//! cargo bench -p duly-server --bench load                         # the embedded store
//! cargo bench -p duly-server --bench load -- redis://127.0.0.1    # any other, under a prefix
//! cargo bench -p duly-server --bench load -- pairs redis://...    # one workload of them
//! ```
//!
//! It asserts no time. Client and server share the machine, so the ratio is the thing to look at.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on its standard output"
)]
#![allow(clippy::unwrap_used)] // it is a benchmark

mod parked;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::put;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use self::server::{Client, Server, text_after};

const CONNECTIONS: usize = 32;
const BULK: usize = 64;
const HAND_OFFS: usize = 2_000;
const LATER: &str = "delay=3600&ttl=7200&tries=1";
const DUE: &str = "delay=0&ttl=7200&tries=1";

/// Runs `work` on so many connections for a while; returns how many units a second it did.
async fn rate<F>(
    server: (SocketAddr, &str),
    connections: usize,
    time: Duration,
    work: impl Fn(Client, Arc<AtomicU64>, Instant) -> F,
) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let done = Arc::<AtomicU64>::default();
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let client = Client::new(server.0, server.1.to_owned()).await;
        tasks.spawn(work(client, Arc::clone(&done), begun + time));
    }
    tasks.join_all().await;
    done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

async fn publish(server: (SocketAddr, &str), time: Duration) -> f64 {
    rate(
        server,
        CONNECTIONS,
        time,
        |mut client, done, end| async move {
            let path = format!("/api/ns/publish?{LATER}");
            while Instant::now() < end {
                let (status, _) = client.send("PUT", &path, &[b'x'; 64]).await;
                assert_eq!(status, 201);
                done.fetch_add(1, Ordering::Relaxed);
            }
        },
    )
    .await
}

async fn bulk(server: (SocketAddr, &str), time: Duration) -> f64 {
    let jobs = vec![format!("\"{}\"", "x".repeat(64)); BULK].join(",");
    let body = Arc::new(format!("[{jobs}]"));
    rate(server, 8, time, |mut client, done, end| {
        let body = Arc::clone(&body);
        async move {
            let path = format!("/api/ns/bulk/bulk?{LATER}");
            while Instant::now() < end {
                let (status, _) = client.send("PUT", &path, body.as_bytes()).await;
                assert_eq!(status, 201);
                done.fetch_add(BULK as u64, Ordering::Relaxed);
            }
        }
    })
    .await
}

/// Publishes what `pairs` consumes.
async fn fill(server: (SocketAddr, &str), time: Duration) {
    let jobs = vec![format!("\"{}\"", "x".repeat(64)); BULK].join(",");
    let body = format!("[{jobs}]");
    let mut client = Client::new(server.0, server.1.to_owned()).await;
    let waiting = (time.as_millis() as usize * 40).div_ceil(BULK);
    for _ in 0..waiting {
        let path = format!("/api/ns/pairs/bulk?{DUE}");
        assert_eq!(client.send("PUT", &path, body.as_bytes()).await.0, 201);
    }
}

/// Consumes and acks what was published before, one job at a time on each connection.
async fn pairs(server: (SocketAddr, &str), time: Duration) -> f64 {
    rate(
        server,
        CONNECTIONS,
        time,
        |mut client, done, end| async move {
            while Instant::now() < end {
                let (status, body) = client
                    .send("GET", "/api/ns/pairs?ttr=60&timeout=1", b"")
                    .await;
                if status == 404 {
                    return; // all are consumed
                }
                let id = text_after(&body, "\"job_id\"").expect("a job").to_owned();
                let job = format!("/api/ns/pairs/job/{id}");
                let (status, _) = client.send("DELETE", &job, b"").await;
                assert_eq!(status, 204);
                done.fetch_add(1, Ordering::Relaxed);
            }
        },
    )
    .await
}

/// Returns how long it takes from a push until a parked poll has the job, sorted, in milliseconds.
async fn hand_offs(server: (SocketAddr, &str), count: usize) -> Vec<f64> {
    let mut poller = Client::new(server.0, server.1.to_owned()).await;
    let mut publisher = Client::new(server.0, server.1.to_owned()).await;
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let polled = tokio::spawn(async move {
            let (status, body) = poller
                .send("GET", "/api/ns/parked?ttr=60&timeout=20", b"")
                .await;
            let at = Instant::now();
            assert_eq!(status, 200);
            (poller, at, body)
        });
        sleep(Duration::from_millis(3)).await; // so that the poll is parked
        let pushed = Instant::now();
        let path = format!("/api/ns/parked?{DUE}");
        assert_eq!(publisher.send("PUT", &path, &[b'x'; 64]).await.0, 201);
        let (back, at, body) = polled.await.unwrap();
        all.push(at.duration_since(pushed).as_secs_f64() * 1e3);
        poller = back;
        let id = text_after(&body, "\"job_id\"").expect("a job").to_owned();
        poller
            .send("DELETE", &format!("/api/ns/parked/job/{id}"), b"")
            .await;
    }
    all.sort_by(f64::total_cmp);
    all
}

/// A server of the same library that does nothing.
async fn bare() -> SocketAddr {
    let created = || async {
        (
            StatusCode::CREATED,
            "{\"job_id\":\"1\",\"msg\":\"published\"}",
        )
    };
    let router = Router::new()
        .route("/api/ns/publish", put(created))
        .route("/api/ns/bulk/bulk", put(created));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Returns the value below which `part` of the sorted values lie.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // `cargo test` runs it without this argument, just to see that it runs.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (time, count, polls) = if is_bench {
        (Duration::from_secs(5), HAND_OFFS, parked::POLLS)
    } else {
        (Duration::from_millis(50), 3, 20)
    };
    let arguments = || std::env::args().skip(1).filter(|it| !it.starts_with('-'));
    let store = arguments().find(|argument| argument.contains(':'));
    let chosen = arguments().find(|argument| !argument.contains(':'));
    let wants = |name: &str| chosen.as_deref().is_none_or(|chosen| chosen == name);
    let server = Server::start(store.as_deref()).await;
    let (bare, duly) = ((bare().await, ""), (server.api, &*server.token));

    println!("{:<40}{:>12}{:>12}{:>8}", "", "bare axum", "duly", "ratio");
    let line = |what: &str, bare: f64, duly: f64| {
        println!("{what:<40}{bare:>12.0}{duly:>12.0}{:>8.2}", duly / bare);
    };
    if wants("publish") {
        let published = (publish(bare, time).await, publish(duly, time).await);
        line("publish, 32 connections, jobs/s", published.0, published.1);
    }
    if wants("bulk") {
        let bulks = (bulk(bare, time).await, bulk(duly, time).await);
        line("bulk of 64, 8 connections, jobs/s", bulks.0, bulks.1);
    }
    if wants("pairs") {
        fill(duly, time).await;
        let (cpu, begun) = (server.cpu(), Instant::now());
        let pairs = pairs(duly, time).await;
        let cpu = (server.cpu() - cpu) / (pairs * begun.elapsed().as_secs_f64());
        println!("{:<40}{:>12}{pairs:>12.0}", "consume and ack, pairs/s", "");
        println!(
            "{:<40}{:>12}{:>12.0}",
            "  server's CPU, us a pair",
            "",
            cpu * 1e6
        );
    }
    if wants("hand-off") {
        let late = hand_offs(duly, count).await;
        let (p50, p99) = (quantile(&late, 0.5), quantile(&late, 0.99));
        println!("hand-off to a parked poll, ms: p50 {p50:.2}, p99 {p99:.2}");
    }
    if wants("parked") {
        parked::run(&server, polls, time).await;
    }
}
