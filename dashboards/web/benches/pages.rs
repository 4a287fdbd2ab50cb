//! How long each page takes, with ten million events in one queue and with ten thousand queues.
//!
//! `cargo bench -p duly-dashboard --bench pages`, or with numbers of events and of queues after
//! `--`. Redis takes part where `redis-server` is installed.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)] // it stops at an error, prints, and measures

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use duly::Bus;
use duly_dashboard::{Dashboard, Role};
use reqwest::Client;

/// How often each page is requested.
const REQUESTS: usize = 30;
/// How many dashboards show their very first page.
const FIRST: usize = 7;
/// The events of a push.
const BATCH: u64 = 1_000;

#[tokio::main]
async fn main() {
    let mut numbers = std::env::args().filter_map(|it| it.replace('_', "").parse::<u64>().ok());
    let events = numbers.next().unwrap_or(10_000_000);
    let queues = numbers.next().unwrap_or(10_000);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let home = tempfile::tempdir().unwrap();
    println!("| store | page | median | worst |\n|---|---|--:|--:|");
    {
        let url = format!("sqlite:{}", home.path().join("events.db").display());
        let bus = open(&url).await;
        fill(&bus, 1, events).await;
        pages(&format!("embedded, {events} events"), &bus).await;
        bus.shutdown(Duration::from_secs(30)).await.unwrap();
    }
    {
        let url = format!("sqlite:{}", home.path().join("queues.db").display());
        let bus = open(&url).await;
        fill(&bus, queues, 1).await;
        pages(&format!("embedded, {queues} queues"), &bus).await;
        bus.shutdown(Duration::from_secs(30)).await.unwrap();
    }
    if let Some(server) = Server::start(home.path()) {
        let bus = open(&server.url).await;
        fill(&bus, queues, 1).await;
        pages(&format!("Redis, {queues} queues"), &bus).await;
        bus.shutdown(Duration::from_secs(30)).await.unwrap();
    }
}

async fn open(url: &str) -> Bus {
    let bus = Bus::builder().settings(Default::default()).store_url(url);
    bus.only_registered().publish_only().start().await.unwrap()
}

/// Pushes so many events to each of so many queues, due over a day.
async fn fill(bus: &Bus, queues: u64, each: u64) {
    for number in 0..queues {
        let queue = bus
            .queue_named::<u64>(&format!("queue-{number:05}"))
            .unwrap();
        let mut from = 0;
        while from < each {
            let to = (from + BATCH).min(each);
            let delay = Duration::from_secs(60 + from * 86_400 / each);
            let _ = queue.push_many(from..to, delay).await.unwrap();
            from = to;
        }
    }
}

/// Serves the dashboard, and prints how long its pages take.
async fn pages(store: &str, bus: &Bus) {
    let queue = bus.queue_named::<u64>("queue-00000").unwrap();
    let id = queue.push(7, Duration::from_secs(60)).await.unwrap().id();
    let redirect = reqwest::redirect::Policy::none();
    let client = Client::builder().redirect(redirect).build().unwrap();
    let event = format!("/queues/queue-00000/events/{id}");
    let find = format!("/find?id={id}");
    // A new dashboard has counted nothing yet.
    let mut took = Vec::new();
    for _ in 0..FIRST {
        let (base, server) = serve(bus).await;
        let began = Instant::now();
        let page = client.get(format!("{base}/")).send().await.unwrap();
        assert!(page.status().is_success(), "{}", page.status());
        page.bytes().await.unwrap();
        took.push(began.elapsed());
        server.abort();
    }
    report(store, "/`, the very first", took);
    let (base, server) = serve(bus).await;
    let is_counting = async || {
        let page = client.get(format!("{base}/")).send().await.unwrap();
        page.text().await.unwrap().contains("still being counted")
    };
    while is_counting().await {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for path in [
        "/",
        "/queues",
        "/queues?sort=name&page=3",
        "/queues?q=99",
        "/queues/queue-00000",
        &event,
        &find,
        "/dead",
        "/dead?queue=queue-00000",
        "/records",
        "/records?queue=queue-00000",
        "/records?outcome=failed",
        "/nodes",
        "/act/revive-all?queue=queue-00000",
        "/act/rate?queue=queue-00000",
    ] {
        let mut took = Vec::new();
        for _ in 0..REQUESTS {
            let began = Instant::now();
            let page = client.get(format!("{base}{path}")).send().await.unwrap();
            let status = page.status();
            page.bytes().await.unwrap();
            took.push(began.elapsed());
            assert!(
                !status.is_client_error() && !status.is_server_error(),
                "{path}: {status}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let path = path.replace(&id.to_string(), "ID");
        report(store, &format!("{path}`"), took);
    }
    server.abort();
}

/// Serves a dashboard; returns its address.
async fn serve(bus: &Bus) -> (String, tokio::task::JoinHandle<std::io::Result<()>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/jobs", listener.local_addr().unwrap());
    let dashboard = Dashboard::new(bus.clone()).at("/jobs").open(Role::Admin);
    let serving = axum::serve(listener, dashboard.router());
    (base, tokio::spawn(serving.into_future()))
}

fn report(store: &str, page: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
    println!("| {store} | `{page} | {} | {} |", ms(median), ms(worst));
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// A server of Redis that keeps nothing.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(home: &Path) -> Option<Self> {
        let socket = home.join("redis.sock");
        let mut command = Command::new("redis-server");
        command
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket);
        let process = command.stdout(Stdio::null()).spawn().ok()?;
        let server = Self {
            process,
            url: format!("redis+unix://{}", socket.display()),
        };
        let began = Instant::now();
        while !socket.exists() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
