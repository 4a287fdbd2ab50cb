//! What a store says of itself, and the records that it offers, as enemies.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use duly::journal::{FoundRecords, Keep};
use duly::prelude::*;
use duly::records::{MinuteQuery, MinuteStats, Query};
use duly::store::{RecordTable, StoreFuture};
use duly::testing::Probe;

use crate::faulty::Faulty;
use crate::world::{ORDERS, World, secs};

/// It panics before it returns a future.
#[derive(Debug)]
struct Panicking;

impl RecordTable for Panicking {
    fn page(self: Arc<Self>, _: Query) -> StoreFuture<FoundRecords> {
        resume_unwind(Box::new("on purpose"))
    }

    fn minutes(self: Arc<Self>, _: MinuteQuery) -> StoreFuture<Vec<MinuteStats>> {
        resume_unwind(Box::new("on purpose"))
    }

    fn keep(&self, _: Keep) {
        resume_unwind(Box::new("on purpose"))
    }
}

#[tokio::test(start_paused = true)]
async fn records_that_panic_are_an_error_of_the_call() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    *way.table.lock().unwrap() = Some(Arc::new(Panicking));
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve_by(way, ORDERS, &probe).await;
    queue.push(1, When::Now).await.unwrap();
    bus.settle().await;
    assert_eq!(probe.count(), 1);
    let page = bus.records().page().await.unwrap_err();
    let minutes = bus.records().queue("orders").minutes();
    let minutes = minutes.page().await.unwrap_err();
    for error in [page, minutes] {
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        assert!(error.to_string().contains("on purpose"), "{error}");
    }
    bus.shutdown(secs(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_when_it_is_looked_at_serves_nevertheless() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    way.looks_panic.store(true, Ordering::Relaxed);
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve_by(way, ORDERS, &probe).await;
    queue.push(1, secs(2)).await.unwrap();
    bus.advance(secs(3)).await;
    assert_eq!(probe.count(), 1);
    bus.shutdown(secs(5)).await.unwrap();
}
