//! The load of a server: publishing, bulks, pairs of consume and ack, and the hand-off to a parked
//! poll, over HTTP on this machine, beside a bare axum server that stores nothing.
//!
//! ```text
//! cargo bench -p duly-server --bench load                         # the embedded store
//! cargo bench -p duly-server --bench load -- redis://127.0.0.1    # any other, under a prefix
//! ```
//!
//! It asserts no time. Client and server share the machine, so the ratio is the thing to look at.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on its standard output"
)]
#![allow(clippy::unwrap_used)] // it is a benchmark

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::put;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const CONNECTIONS: usize = 32;
const BULK: usize = 64;
const HAND_OFFS: usize = 2_000;
const LATER: &str = "delay=3600&ttl=7200&tries=1";
const DUE: &str = "delay=0&ttl=7200&tries=1";
const PATIENCE: Duration = Duration::from_secs(20);

/// A server in a process of its own, which is killed at the end.
struct Server {
    process: Child,
    api: SocketAddr,
    token: String,
    _folder: tempfile::TempDir,
}

impl Server {
    async fn start(store: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = match store {
            None => format!("sqlite:{}", folder.path().join("jobs.db").display()),
            Some(url) => format!("{url}?prefix=duly-load-{:016x}", fastrand::u64(..)),
        };
        let (api, admin) = (free_address().await, free_address().await);
        let mut server = Command::new(env!("CARGO_BIN_EXE_duly"));
        server.args(["serve", "--log-level", "error", "--store", &store]);
        server.args(["--listen", &api.to_string()]);
        server.args(["--admin-listen", &admin.to_string()]);
        let server = server.current_dir(folder.path()).stdout(Stdio::null());
        let process = server.spawn().unwrap();
        let ready = async {
            while TcpStream::connect(admin).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, ready).await.unwrap();
        let mut client = Client::new(admin, String::new()).await;
        let made = client.send("POST", "/token/ns?description=load", b"").await;
        let (status, body) = made;
        assert_eq!(status, 201, "a token");
        let token = text_after(&body, "\"token\"").expect("a token").to_owned();
        Self {
            process,
            api,
            token,
            _folder: folder,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// A connection that is kept open.
struct Client {
    stream: TcpStream,
    token: String,
    read: Vec<u8>,
}

impl Client {
    async fn new(address: SocketAddr, token: String) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            token,
            read: Vec::new(),
        }
    }

    /// Sends a request; returns the status and the body of the reply.
    async fn send(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: load\r\nX-Token: {}\r\nContent-Length: {}\r\n\r\n",
            self.token,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.write_all(&request).await.unwrap();
        self.read.clear();
        loop {
            if let Some(reply) = reply(&self.read) {
                return reply;
            }
            let read = self.stream.read_buf(&mut self.read).await.unwrap();
            assert_ne!(read, 0, "the server has closed the connection");
        }
    }
}

/// Returns the status and the body of a reply that is here as a whole.
fn reply(bytes: &[u8]) -> Option<(u16, String)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    (body.len() >= length.unwrap_or(0)).then(|| (status, body.to_owned()))
}

/// Returns the text of a field of JSON.
fn text_after<'a>(body: &'a str, field: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(field)?;
    rest.split('"').nth(1)
}

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

/// Consumes and acks what was published before, one job at a time on each connection.
async fn pairs(server: (SocketAddr, &str), time: Duration) -> f64 {
    let jobs = vec![format!("\"{}\"", "x".repeat(64)); BULK].join(",");
    let body = format!("[{jobs}]");
    let mut client = Client::new(server.0, server.1.to_owned()).await;
    let waiting = (time.as_millis() as usize * 40).div_ceil(BULK);
    for _ in 0..waiting {
        let path = format!("/api/ns/pairs/bulk?{DUE}");
        assert_eq!(client.send("PUT", &path, body.as_bytes()).await.0, 201);
    }
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

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // `cargo test` runs it without this argument, just to see that it runs.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (time, count) = match is_bench {
        true => (Duration::from_secs(5), HAND_OFFS),
        false => (Duration::from_millis(50), 3),
    };
    let store = std::env::args()
        .skip(1)
        .find(|argument| argument.contains(':'));
    let server = Server::start(store.as_deref()).await;
    let (bare, duly) = ((bare().await, ""), (server.api, &*server.token));

    println!("{:<34}{:>14}{:>14}{:>8}", "", "bare axum", "duly", "ratio");
    let line = |what: &str, bare: f64, duly: f64| {
        println!("{what:<34}{bare:>14.0}{duly:>14.0}{:>8.2}", duly / bare);
    };
    let published = (publish(bare, time).await, publish(duly, time).await);
    line("publish, 32 connections, jobs/s", published.0, published.1);
    let bulks = (bulk(bare, time).await, bulk(duly, time).await);
    line("bulk of 64, 8 connections, jobs/s", bulks.0, bulks.1);
    let pairs = pairs(duly, time).await;
    println!("{:<34}{:>14}{pairs:>14.0}", "consume and ack, pairs/s", "");
    let late = hand_offs(duly, count).await;
    let part = |part: f64| late[((late.len() - 1) as f64 * part) as usize];
    println!(
        "hand-off to a parked poll, ms: p50 {:.2}, p99 {:.2}",
        part(0.5),
        part(0.99)
    );
}
