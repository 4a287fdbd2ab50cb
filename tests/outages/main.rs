//! What the log says of a server that hangs, goes away or does neither: a bounded number of lines,
//! however many queues and buckets there are, and of no loss that did not happen; and what it says
//! of handlers that keep threads of the runtime busy.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

#[path = "../servers/lines.rs"]
mod lines;
#[path = "../servers/mod.rs"]
mod servers;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use duly::Annotation;
use duly::config::QueueChoices;
use duly::prelude::*;
use tokio::time::{Instant, sleep, timeout};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use crate::lines::Lines;
use crate::servers::Redis;

const QUEUES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const BUCKETS: u16 = 16;
/// For how long the server is away: longer than leases last, and than a call may take.
const AWAY: Duration = Duration::from_secs(8);
/// The most lines of a server that was away once: each part of the bus that asks the store for
/// itself tells when it goes, when the reason changes and when it comes back.
const LINES_MAX: usize = 30;

/// The lines of this process that are no `debug`: the mover has a thread of its own.
static LINES: LazyLock<Lines> = LazyLock::new(|| {
    let lines = Lines::default();
    let subscriber = Registry::default().with(lines.clone());
    tracing::subscriber::set_global_default(subscriber).unwrap();
    lines
});
/// One test at a time, since they share the lines.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Handler for Count {
    type Payload = u32;

    async fn handle(&self, _event: Event<u32>, _cx: &Context) -> Result<(), Failure> {
        sleep(Duration::from_millis(5)).await;
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A process that handles many queues, and another that pushes to them all the time.
struct Load {
    bus: Bus,
    pusher: Bus,
    queues: Vec<Queue<u32>>,
    handled: Count,
}

impl Load {
    async fn start(url: &str) -> Self {
        let builder = || {
            let builder = Bus::builder().only_registered();
            builder.settings(Default::default()).store_url(url)
        };
        let handled = Count::default();
        let (mut bus, mut pusher) = (builder(), builder().publish_only());
        for name in QUEUES {
            let annotation = Annotation::new(name).buckets(BUCKETS);
            bus = bus.register_as(annotation, handled.clone());
            let choices = QueueChoices {
                buckets: Some(BUCKETS),
                ..Default::default()
            };
            pusher = pusher.queue(name, choices);
        }
        let (bus, pusher) = (bus.start().await.unwrap(), pusher.start().await.unwrap());
        let queues = QUEUES.map(|name| pusher.queue_named(name).unwrap()).into();
        let load = Self {
            bus,
            pusher,
            queues,
            handled,
        };
        load.goes_on(Duration::from_secs(1)).await;
        load
    }

    /// Pushes for so long, whatever becomes of it.
    async fn goes_on(&self, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            let pushes =
                (0..60).map(|number| self.queues[number % QUEUES.len()].push(7, When::Now));
            let all = futures_util::future::join_all(pushes);
            let left = time.saturating_sub(began.elapsed());
            let _ = timeout(left, all).await;
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Pushes until as many more are handled.
    async fn is_well(&self) {
        let before = self.handled.0.load(Ordering::Relaxed);
        let began = Instant::now();
        while self.handled.0.load(Ordering::Relaxed) < before + 500 {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "nothing is handled"
            );
            self.goes_on(Duration::from_millis(100)).await;
        }
    }

    async fn stop(self) {
        self.pusher.shutdown(Duration::from_secs(20)).await.unwrap();
        self.bus.shutdown(Duration::from_secs(20)).await.unwrap();
    }
}

fn losses(lines: &[String]) -> usize {
    let of = |line: &&String| line.contains("lost to another node");
    lines.iter().filter(of).count()
}

/// What is told of a server that was away.
fn check(lines: &[String]) {
    assert!(lines.len() <= LINES_MAX, "{}: {lines:#?}", lines.len());
    let told = |phrase: &str| lines.iter().filter(|line| line.contains(phrase)).count();
    assert!(
        told("store outage\"") + told("store outage ") > 0,
        "{lines:#?}"
    );
    assert!(told("store outage ended") > 0, "{lines:#?}");
    assert!(
        lines.iter().any(|line| line.contains("failures=")),
        "{lines:#?}"
    );
    assert_eq!(losses(lines), 0, "nobody else was there: {lines:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_is_told_of_in_a_bounded_number_of_lines() {
    let _turn = TURN.lock().await;
    let server = Redis::plain();
    let url = format!("{}?prefix=stopped", server.url());
    let load = Load::start(&url).await;
    LINES.take();
    server.stop_process();
    load.goes_on(AWAY).await;
    server.cont();
    load.is_well().await;
    load.stop().await;
    check(&LINES.all());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_is_told_of_in_a_bounded_number_of_lines() {
    let _turn = TURN.lock().await;
    let mut server = Redis::plain();
    let url = format!("{}?prefix=gone", server.url());
    let load = Load::start(&url).await;
    LINES.take();
    server.kill();
    load.goes_on(AWAY).await;
    server.restart();
    load.is_well().await;
    load.stop().await;
    check(&LINES.all());
}

/// With another node beside it that comes and goes in good order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_in_which_nobody_dies_tells_of_no_lost_lease() {
    let _turn = TURN.lock().await;
    let server = Redis::plain();
    let url = format!("{}?prefix=well", server.url());
    let load = Load::start(&url).await;
    LINES.take();
    load.goes_on(Duration::from_secs(3)).await;
    let other = Load::start(&url).await;
    load.goes_on(Duration::from_secs(3)).await;
    other.stop().await;
    load.is_well().await;
    load.stop().await;
    let lines = LINES.all();
    assert_eq!(losses(&lines), 0, "{lines:#?}");
    let outages = lines.iter().filter(|line| line.contains("store outage"));
    assert_eq!(outages.count(), 0, "{lines:#?}");
}

/// Waits until it may go on.
struct Waits(tokio_util::sync::CancellationToken);

impl Handler for Waits {
    type Payload = u32;

    async fn handle(&self, _event: Event<u32>, _cx: &Context) -> Result<(), Failure> {
        self.0.cancelled().await;
        Ok(())
    }
}

/// Every event that waits for a worker finds that it cannot be started, and every bucket that it cannot
/// be read any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_stops_is_logged_once_however_much_waits() {
    const EVENTS: usize = 400;
    /// When each bucket has something that is due.
    const LATER: Duration = Duration::from_secs(6);
    let _turn = TURN.lock().await;
    LINES.take();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("duly.db");
    let go_on = tokio_util::sync::CancellationToken::new();
    let many = |queue| Annotation::new(queue).buckets(64).workers(1).ring(512);
    let bus = Bus::builder()
        .only_registered()
        .settings(Default::default())
        .store_url(format!("sqlite:{}", path.display()))
        .register_as(many("waits"), Waits(go_on.clone()))
        .register_as(many("waits-too"), Waits(go_on.clone()))
        .start()
        .await
        .unwrap();
    for name in ["waits", "waits-too"] {
        let queue = bus.queue_named::<u32>(name).unwrap();
        for _ in 0..EVENTS {
            queue.push(7, When::Now).await.unwrap();
            queue.push(7, LATER).await.unwrap();
        }
    }
    let due = bus.store_time() + LATER;
    let is_told = |phrase: &str| LINES.all().iter().any(|line| line.contains(phrase));
    let began = Instant::now();
    let waits = async |done: &dyn Fn() -> bool| {
        while !done() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{:#?}",
                LINES.all()
            );
            sleep(Duration::from_millis(20)).await;
        }
    };
    waits(&|| bus.load().iter().all(|load| load.queued >= EVENTS / 2)).await;
    std::fs::remove_file(&path).unwrap();
    waits(&|| is_told("embedded store stopped")).await;
    assert!(
        bus.store_time() < due,
        "it stopped before the buckets are read"
    );
    go_on.cancel();
    waits(&|| is_told("starts of handlers")).await;
    waits(&|| is_told("bucket no longer polled")).await;
    waits(&|| bus.store_time() > due + Duration::from_secs(1)).await;
    assert!(bus.shutdown(Duration::from_secs(20)).await.is_err());
    let lines = LINES.all();
    assert!(lines.len() <= LINES_MAX, "{}: {lines:#?}", lines.len());
    let of_buckets = lines
        .iter()
        .filter(|line| line.contains("no longer polled"));
    assert_eq!(of_buckets.count(), 1, "{lines:#?}");
}

/// Keeps its thread busy for some milliseconds.
struct Burns(Arc<AtomicUsize>);

impl Handler for Burns {
    type Payload = u32;

    async fn handle(&self, _event: Event<u32>, _cx: &Context) -> Result<(), Failure> {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// How often the log tells of busy threads, when a queue burns for two seconds.
async fn lines_of_burning(annotation: Annotation) -> usize {
    const EVENTS: usize = 400;
    LINES.take();
    let handled = Arc::default();
    let builder = Bus::builder()
        .only_registered()
        .settings(Default::default());
    let builder = builder.register_as(annotation, Burns(Arc::clone(&handled)));
    let bus = builder.store_url("memory:").start().await.unwrap();
    let mut publisher = bus.queue_named("burns").unwrap().publisher().unwrap();
    for number in 0..EVENTS as u32 {
        publisher.publish(number).await.unwrap();
    }
    let all = async {
        while handled.load(Ordering::Relaxed) < EVENTS {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(60), all).await.unwrap();
    bus.shutdown(Duration::from_secs(20)).await.unwrap();
    let lines = LINES.all();
    let of = |line: &&String| line.contains("dedicated = ") && line.contains("queue=burns");
    lines.iter().filter(of).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_keep_threads_busy_are_told_of_once_with_advice() {
    let _turn = TURN.lock().await;
    let shared = Annotation::new("burns").workers(2);
    assert_eq!(lines_of_burning(shared).await, 1);
    let dedicated = Annotation::new("burns").workers(2).dedicated(true);
    assert_eq!(lines_of_burning(dedicated).await, 0, "nobody waits for it");
}

/// What a start warns of with these settings.
async fn warnings(settings: &str) -> Vec<String> {
    LINES.take();
    let bus = Bus::builder()
        .only_registered()
        .settings(duly::config::Settings::from_toml(settings).unwrap())
        .store_url("memory:")
        .register_as(Annotation::new("a"), Count::default());
    let bus = bus.start().await.unwrap();
    bus.shutdown(Duration::from_secs(20)).await.unwrap();
    let lines = LINES.all().into_iter();
    let warnings = lines.filter(|line| line.contains("message=settings for"));
    warnings.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_say_nothing_to_anything_are_told_of_once() {
    let _turn = TURN.lock().await;
    let records = "records = { keep = '1d', keep_max = 9, outbox_max = 8 }";
    let calendars = "
        calendars = { used = '2026-12-25', idle = '2026-12-26', lazy = '2026-12-27' }
        schedules.daily = { queue = 'a', when = 'every 1h', exclude = 'used' }";
    for (settings, expected) in [
        (
            records,
            ["journal", "\"records.keep, records.keep_max\""].as_slice(),
        ),
        (calendars, &["calendars", "\"idle, lazy\"", "many=2"]),
        ("", &[]),
    ] {
        let warnings = warnings(settings).await;
        assert_eq!(warnings.len(), expected.len().min(1), "{warnings:#?}");
        let said = warnings.concat();
        assert!(expected.iter().all(|words| said.contains(words)), "{said}");
    }
}
