//! The parts of a bus, and its way to the store, as enemies: on a server, and on real time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use duly::BusBuilder;
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::store::{RedisStore, Store};
use duly::testing::Probe;

use super::misdeed::Registered;
use super::parts::{Old, call_both, fill_the_ring, hanging, upgrading, with_bombs};
use crate::faulty::{Fault, Faulty};
use crate::servers;
use crate::world::{ORDERS, ms, secs};

pub(super) fn url() -> String {
    format!("{}?prefix={}", servers::shared().url(), servers::prefix())
}

pub(super) fn builder(url: &str) -> BusBuilder {
    let builder = Bus::builder().only_registered().store_url(url);
    builder.settings(Default::default())
}

/// Asks again until it is so.
pub(super) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let asked = async {
        while !holds().await {
            tokio::time::sleep(ms(5)).await;
        }
    };
    let asked = tokio::time::timeout(secs(120), asked).await;
    assert!(asked.is_ok(), "not in time: {what}");
}

/// Whether nothing waits or runs in a queue.
pub(super) async fn is_over(bus: &Bus, queue: &str) -> bool {
    let stats = bus.stats(queue).await.unwrap();
    (stats.scheduled, stats.ready, stats.leased) == (0, 0, 0)
}

#[tokio::test]
async fn values_that_wait_in_the_ring_may_panic_when_they_are_dropped() {
    let url = url();
    let bus = hanging(builder(&url)).start().await.unwrap();
    let settled = async |queued| {
        until("it is in the ring", async || {
            let load = bus.load();
            (load[0].active, load[0].queued) == (1, queued)
        })
        .await;
    };
    fill_the_ring(&bus, settled).await;
    bus.shutdown(secs(1)).await.unwrap();
    drop(bus);
    let bus = builder(&url).publish_only().start().await.unwrap();
    let stats = bus.stats("hangs").await.unwrap();
    assert_eq!((stats.ready, stats.leased), (10, 0), "all were handed back");
    bus.shutdown(secs(30)).await.unwrap();
}

#[tokio::test]
async fn states_and_handlers_may_panic_when_they_are_dropped() {
    let url = url();
    for _ in 0..2 {
        let bus = with_bombs(builder(&url)).start().await.unwrap();
        call_both(&bus).await;
        bus.shutdown(secs(30)).await.unwrap();
        drop(bus);
    }
}

#[tokio::test]
async fn an_upgrade_that_misbehaves_buries_its_event() {
    let url = url();
    let bus = builder(&url).publish_only().start().await.unwrap();
    let registered = Registered::new(&bus);
    let all = Old::push_each(&bus, registered.0).await;
    bus.shutdown(secs(30)).await.unwrap();
    drop(bus);
    let bus = upgrading(builder(&url)).start().await.unwrap();
    registered.is_now(&bus);
    bus.resume("upgraded").await.unwrap();
    until("all are over", async || is_over(&bus, "upgraded").await).await;
    Old::check_each(&all, &bus).await;
    drop(registered);
    bus.shutdown(secs(30)).await.unwrap();
}

#[tokio::test]
async fn a_store_that_panics_now_and_then_is_called_again() {
    let near: Arc<dyn Store> = Arc::new(RedisStore::open(&url()).await.unwrap());
    let faulty = Faulty::to(&near);
    let probe = Probe::<u64>::answering(|event, _cx| match event.payload % 5 {
        0 => Err(Failure::permanent("no")),
        _ => Ok(()),
    });
    let builder = Bus::builder()
        .only_registered()
        .settings(Default::default())
        .shared_store(Arc::clone(&faulty) as _)
        .register_as(ORDERS, probe.clone());
    let bus = builder.start().await.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let mut ids = Vec::new();
    for number in 0..40 {
        ids.push(queue.push(number, ms(number * 37)).await.unwrap().id());
    }
    let mut asked = 0;
    faulty.meets(move |_, op| {
        asked += 1;
        match (asked % 3, op) {
            (_, StoreOp::Stats | StoreOp::Peek { .. }) => Fault::None,
            (0, _) => Fault::Panics,
            (1, _) => Fault::PanicsLater,
            _ => Fault::None,
        }
    });
    faulty.rolls_are(Fault::Panics);
    faulty.notes_panic.store(true, Ordering::Relaxed);
    // A node that hears of no other leases nothing for long.
    until("it is called", async || faulty.asked() > 200).await;
    faulty.is(Fault::None);
    faulty.notes_panic.store(false, Ordering::Relaxed);
    until("all are over", async || is_over(&bus, "orders").await).await;
    for id in ids {
        let history = bus.records().id(id).page().await.unwrap().items;
        let last = history.last().map(|it| it.outcome);
        // A node that says nothing for long is taken for dead: some are begun again.
        assert!(
            matches!(last, Some(Outcome::Acked | Outcome::Buried)),
            "{history:?}"
        );
    }
    bus.shutdown(secs(30)).await.unwrap();
}
