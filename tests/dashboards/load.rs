//! A program under load, which serves its metrics: one for all tests here, since a process has one
//! page.

use std::net::{SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::time::Duration;

use duly::journal::RecordChoices;
use duly::lease::LeaseStatus;
use duly::metrics::MetricsChoices;
use duly::prelude::*;
use duly::schedule::ScheduleOptions;
use duly::time::{DELAY_MAX, When};
use duly::{Annotation, BusBuilder, RetryPolicy};
use tokio::runtime::Runtime;

use crate::servers::{self, get};

/// Who is scraped, and what came before.
pub(crate) struct Program {
    pub(crate) address: SocketAddr,
    /// What a start answered whose port was taken.
    pub(crate) taken: String,
    pub(crate) taken_at: SocketAddr,
    /// What a start answered that wanted a second page.
    pub(crate) second: String,
    _runtime: Runtime,
}

pub(crate) static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    let program = std::thread::scope(|scope| {
        // A thread of its own: who asks first may be inside of another runtime.
        let start = scope.spawn(|| runtime.block_on(start()));
        start.join().expect("it starts")
    });
    let (address, taken_at, taken, second) = program;
    Program {
        address,
        taken,
        taken_at,
        second,
        _runtime: runtime,
    }
});

impl Program {
    /// The page.
    pub(crate) fn page(&self) -> String {
        let (status, page) = get(self.address, "/metrics").expect("it answers");
        assert_eq!(status, 200);
        page
    }
}

/// Ends as its payload says.
struct Fickle;

impl Handler for Fickle {
    type Payload = u64;

    async fn handle(&self, event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        match event.payload % 10 {
            0 => Err(Failure::permanent("never")),
            1 if event.attempt() == 1 => Err(Failure::retry("not yet")),
            2 if event.attempt() == 1 => Err(Failure::snooze(Duration::from_millis(10))),
            3 => Err(Failure::discard("of no use")),
            _ => Ok(()),
        }
    }
}

fn free() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

async fn start() -> (SocketAddr, SocketAddr, String, String) {
    let url = format!("{}?prefix={}", servers::shared().url(), servers::prefix());
    let folder = tempfile::tempdir().expect("a folder").keep();
    let node = |number: usize, address: SocketAddr| {
        let choices = MetricsChoices {
            listen: Some(address),
            depths_every: Some(Duration::from_millis(500)),
            ..MetricsChoices::default()
        };
        let records = RecordChoices {
            journal: Some(format!("sqlite:{}/{number}.db", folder.display())),
            ..RecordChoices::default()
        };
        let orders = Annotation::new("orders").buckets(4);
        let choice = QueueChoices {
            backoff: Some(RetryPolicy::fixed(Duration::from_millis(100))),
            ..QueueChoices::default()
        };
        let builder: BusBuilder = Bus::builder()
            .only_registered()
            .settings(Default::default());
        let builder = builder.store_url(&url).records(records).metrics(choices);
        let letters = Annotation::new("letters").buckets(4);
        let builder = builder
            .register_as(orders, Fickle)
            .register_as(letters, Fickle);
        builder.queue("orders", choice).start()
    };
    let holder = free();
    let taken_at = holder.local_addr().expect("an address");
    let taken = node(0, taken_at)
        .await
        .expect_err("the port is taken")
        .to_string();

    let address = free().local_addr().expect("an address");
    let buses = [node(0, address).await, node(0, address).await];
    let buses = buses.map(|bus| bus.expect("a start; the same page again is no other"));
    let other = free().local_addr().expect("an address");
    let second = node(0, other).await.expect_err("one page").to_string();
    let often = ScheduleOptions::new("letters", "every 1s").and_then(|often| often.payload(&7));
    let often = often.expect("legal options");
    buses[0].schedules().set("often", often).await.expect("set");
    push(&buses[0]).await; // each queue has its counters from here on
    tokio::spawn(async move {
        loop {
            for bus in &buses {
                push(bus).await;
                pull(bus).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    (address, taken_at, taken, second)
}

async fn push(bus: &Bus) {
    for name in ["orders", "letters"] {
        let queue = bus.queue_named::<u64>(name).expect("a legal name");
        let soon = Duration::from_millis(fastrand::u64(0..2_000));
        let later = Duration::from_secs(fastrand::u64(1..7_200));
        queue.push_many(0..20, soon).await.expect("a push");
        queue.push(7, later).await.expect("a push");
        let once = queue.event(7).unique("once", Unique::Keep);
        once.after(Duration::from_secs(3_600))
            .push()
            .await
            .expect("a push");
        let never = queue.event(7).after(DELAY_MAX + Duration::from_secs(1));
        never.push().await.expect_err("nobody waits for so long");
    }
    let pulled = bus.queue_named::<u64>("pulled").expect("a legal name");
    pulled.push_many(0..5, When::Now).await.expect("a push");
}

async fn pull(bus: &Bus) {
    let pulled = bus.queue_named::<u64>("pulled").expect("a legal name");
    let request = pulled.lease(100, Duration::from_secs(60));
    for leased in request.send().await.expect("leases") {
        let acked = leased.ack().await.expect("an ack");
        assert_eq!(acked, LeaseStatus::Held);
    }
}
