//! The ends of a bus beside a subscriber that panics at each line: they are as without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duly::journal::{Batch, FoundRecords, Journal, JournalFuture, Keep, Pruned};
use duly::prelude::*;
use duly::records::{Cursor, MinuteQuery, MinuteStats, Query};
use duly::store::operation::StoreOp;
use duly::testing::{Probe, TestBus, VirtualClock};
use duly::time::Timestamp;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use super::neighbours::{LINES, Panicking};
use crate::bad::{Bad, Mode};
use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

/// Each line of this thread panics, until it is dropped.
fn panicking() -> DefaultGuard {
    let when: &'static AtomicUsize = Box::leak(Box::default());
    when.store(LINES, Ordering::Relaxed);
    tracing::subscriber::set_default(Registry::default().with(Panicking(when)))
}

/// Only its line is in the way of the end.
#[tokio::test(start_paused = true)]
async fn a_bus_that_is_dropped_closes_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("duly.db").display());
    let start = async || {
        let builder = Bus::builder().only_registered().publish_only();
        TestBus::start_on(Arc::new(VirtualClock::new()), builder.store_url(&url)).await
    };
    let bus = start().await.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    {
        let _panics = panicking();
        drop(bus);
    }
    let again = async {
        loop {
            match start().await {
                Ok(bus) => break bus,
                Err(_) => tokio::time::sleep(ms(10)).await,
            }
        }
    };
    let again = timeout(secs(60), again).await.expect("the file is free");
    let closed = queue.push(1, When::Now).await.unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);
    again.shutdown(secs(1)).await.unwrap();
}

/// A journal that a bus owns, and its test as well.
#[derive(Debug)]
struct Owned(Arc<Bad>);

impl Journal for Owned {
    fn load(&self, batches: Vec<Batch>) -> JournalFuture<()> {
        self.0.load(batches)
    }

    fn page(&self, query: Query) -> JournalFuture<FoundRecords> {
        self.0.page(query)
    }

    fn minutes(&self, query: MinuteQuery) -> JournalFuture<Vec<MinuteStats>> {
        self.0.minutes(query)
    }

    fn prune(&self, keep: Keep, now: Timestamp) -> JournalFuture<Pruned> {
        self.0.prune(keep, now)
    }

    fn erase(&self, places: Vec<Cursor>) -> JournalFuture<()> {
        self.0.erase(places)
    }

    fn close(&self) -> JournalFuture<()> {
        self.0.close()
    }
}

/// Records wait, the journal cannot be closed, and a line of the audit cannot be written.
#[tokio::test(start_paused = true)]
async fn a_stop_goes_on_to_its_end() {
    let world = World::memory();
    for is_shared in [true, false] {
        let way = Faulty::to(&world.store);
        let builder = Bus::builder().only_registered();
        let builder = builder.shared_store(Arc::clone(&way) as _);
        let builder = builder.register_as(ORDERS, Probe::<u64>::new());
        let journal = Arc::new(Bad::default());
        let builder = if is_shared {
            builder.shared_journal(Arc::clone(&journal) as _)
        } else {
            builder.journal(Owned(Arc::clone(&journal)))
        };
        let bus = world.start(builder).await;
        let queue = bus.queue_named::<u64>("orders").unwrap();
        journal.now(Mode::Fails);
        queue.push(1, When::Now).await.unwrap();
        bus.advance(secs(1)).await;
        way.meets(|_, op| match op {
            StoreOp::Push(_) => Fault::Refused(ErrorKind::Unavailable),
            _ => Fault::None,
        });
        bus.pause("orders").await.unwrap();
        bus.resume("orders").await.unwrap();
        let _panics = panicking();
        bus.shutdown(secs(1)).await.unwrap();
        assert_eq!(journal.is_closed(), !is_shared);
    }
}

/// Whoever waits for room in a ring is refused.
#[test]
fn a_bus_whose_runtime_ends_refuses_who_waits() {
    let home = Builder::new_current_thread().enable_all().build().unwrap();
    let mut other = Builder::new_multi_thread();
    let other = other.worker_threads(1).enable_all().build().unwrap();
    let builder = Bus::builder()
        .only_registered()
        .settings(Default::default());
    let builder = builder.store_url("memory:");
    let builder = builder.register_as(ORDERS, Probe::<u64>::new());
    let bus = home.block_on(builder.start()).unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let waiting = other.spawn(async move {
        loop {
            queue.publish(1).await?; // until the ring is full, and then it waits
        }
    });
    other.block_on(async {
        let full = async {
            let mut last = 0;
            // Nobody drives the handlers, so it is full when it grows no more.
            while last == 0 || bus.load()[0].queued > last {
                last = bus.load()[0].queued;
                tokio::time::sleep(ms(20)).await;
            }
        };
        timeout(secs(60), full).await.unwrap();
    });
    {
        let _panics = panicking();
        drop(home);
    }
    let ended: duly::Result<()> = other
        .block_on(async { timeout(secs(60), waiting).await })
        .expect("it returns")
        .unwrap();
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
}
