//! A relay that is stopped while its database is slow: it gives up nothing that it knows.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use duly::prelude::*;
use duly::store::{MemoryStore, operation::StoreOp};
use futures_util::FutureExt;

use crate::aged::{few_ends, forget};
use crate::databases::{DEFERRED, Outbox, REFUSED, Slow};
use crate::faulty::{Fault, Faulty};
use crate::partly::{away, faulty};
use crate::world::{Seen, builder, eventually, orders};

/// How slow: a relay that gives up before leaves behind what the database does nevertheless.
const SLOW: Duration = Duration::from_millis(2_500);
const UNAVAILABLE: Fault = Fault::Refused(ErrorKind::Unavailable);

/// How a relay ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Stop,
    Shutdown,
}

/// What it holds would else wait for the end of its claims, also where it had more than a page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_relay_has_not_come_to_is_at_once_free_for_the_next() {
    let mut cases = Vec::new();
    for (end, page) in [
        (End::Stop, 1),
        (End::Stop, 3),
        (End::Shutdown, 1),
        (End::Shutdown, 3),
    ] {
        for outbox in Outbox::all().await {
            cases.push(ends_within((end, page), outbox));
        }
    }
    futures_util::future::join_all(cases).await;
}

async fn ends_within((end, page): (End, u64), outbox: Outbox) {
    let at = format!("{end:?} at page {page} of {}", outbox.name());
    let seen = Seen::default();
    let (store, bus) = faulty(&seen, MemoryStore::new()).await;
    outbox.push(&orders(&bus), 0..4_500, When::Now).await;
    // The store is at a push of the page when the relay ends.
    let (reached, is_reached) = tokio::sync::oneshot::channel();
    let (go_on, may_go_on) = channel::<()>();
    let (mut reached, mut pushed) = (Some(reached), 0);
    store.meets(move |key, op| {
        let StoreOp::Push(events) = op else {
            return Fault::None;
        };
        pushed += events.len() as u64;
        if key.queue.as_str() == "orders"
            && pushed > (page - 1) * 1_000
            && let Some(reached) = reached.take()
        {
            reached.send(()).unwrap();
            may_go_on.recv().ok();
        }
        Fault::None
    });
    let relay = outbox.relay(&bus).await;
    is_reached.await.unwrap();
    let mut ending = match end {
        End::Stop => relay.stop().boxed_local(),
        End::Shutdown => async {
            bus.clone().shutdown(Duration::from_secs(5)).await.unwrap();
            eventually("the relay ends", async || relay.has_ended()).await;
        }
        .boxed_local(),
    };
    assert!(futures_util::poll!(&mut ending).is_pending(), "{at}");
    drop(go_on);
    ending.await;
    let held = match &outbox {
        Outbox::Postgres(_) => {
            "select count(*) from (select holder from duly_outbox_step order by n desc limit 1) \
             as newest where holder <> ''"
        }
        Outbox::Mysql(_) => "select count(*) from duly_outbox where holder <> ''",
        Outbox::Sqlite(_) => "select 0",
    };
    assert_eq!(outbox.number(held).await, 0, "{at}");
    let next = builder(&seen).shared_store(store).start().await.unwrap();
    let relay = outbox.relay(&next).await;
    seen.reach(4_500).await;
    outbox.settled().await;
    assert_eq!(outbox.number(REFUSED).await, 0, "{at}");
    relay.stop().await;
}

/// What the relay is at when it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    TakesPage,
    ClosesPage,
    TakesDeferred,
    SettlesDeferred,
}

/// All at once, as each waits most of the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_known_at_a_stop_is_stored_by_a_database_that_is_slow() {
    let mut cases = Vec::new();
    for at in [
        At::TakesPage,
        At::ClosesPage,
        At::TakesDeferred,
        At::SettlesDeferred,
    ] {
        for outbox in Outbox::all().await {
            let is_take = matches!(at, At::TakesPage | At::TakesDeferred);
            // Nothing tells who waits for a file.
            if !is_take || !matches!(outbox, Outbox::Sqlite(_)) {
                cases.push(stopped_at(at, Arc::new(outbox)));
            }
        }
    }
    futures_util::future::join_all(cases).await;
}

async fn stopped_at(at: At, outbox: Arc<Outbox>) {
    let seen = Seen::default();
    let (store, bus) = faulty(&seen, MemoryStore::new().with_window(few_ends())).await;
    let queue = orders(&bus);
    // The outbox is in use.
    let relay = outbox.relay(&bus).await;
    outbox.push(&queue, 1..2, When::Now).await;
    seen.reach(1).await;
    outbox.settled().await;
    relay.stop().await;
    store.meets(away("orders", None, UNAVAILABLE));
    if matches!(at, At::TakesDeferred | At::SettlesDeferred) {
        let relay = outbox.relay(&bus).await;
        outbox.push(&queue, 7..8, When::Now).await;
        outbox.until(DEFERRED, 1).await;
        relay.stop().await;
    } else {
        outbox.push(&queue, 7..8, When::Now).await;
    }
    let (relay, slow) = if matches!(at, At::TakesPage | At::TakesDeferred) {
        let slow = outbox.slow();
        (outbox.relay(&bus).await, slow)
    } else {
        let slow = slow_from_push(&store, &outbox);
        let relay = outbox.relay(&bus).await;
        let slow = tokio::task::spawn_blocking(move || slow.recv().unwrap());
        (relay, slow.await.unwrap())
    };
    if !matches!(*outbox, Outbox::Sqlite(_)) {
        outbox.until(outbox.waits(), 1).await;
    }
    let slow = tokio::task::spawn_blocking(|| slow.end_after(SLOW));
    relay.stop().await;
    slow.await.unwrap();
    let is_deferred = async || outbox.number(DEFERRED).await == 1;
    eventually(&format!("{at:?}: {} has it", outbox.name()), is_deferred).await;
    let free = "select count(*) from duly_outbox_deferred where holder = ''";
    assert_eq!(
        outbox.number(free).await,
        1,
        "{at:?}: {} has it claimed",
        outbox.name()
    );
    // The next relay knows that it was not accepted, although the store forgets soon.
    store.meets(|_, _| Fault::None);
    forget(&queue, &seen).await;
    let relay = outbox.relay(&bus).await;
    outbox.settled().await;
    assert_eq!(
        outbox.number(REFUSED).await,
        0,
        "{at:?}: {} has put it aside",
        outbox.name()
    );
    seen.reach(1_002).await;
    assert_eq!(seen.counts()[&7], 1, "{at:?}");
    relay.stop().await;
}

/// The store accepts nothing, and the database is slow once that is to be stored.
fn slow_from_push(store: &Faulty, outbox: &Arc<Outbox>) -> std::sync::mpsc::Receiver<Slow> {
    let (slow, is_slow) = channel();
    let (outbox, mut slow) = (Arc::clone(outbox), Some(slow));
    store.meets(move |key, op| {
        if key.queue.as_str() != "orders" || !matches!(op, StoreOp::Push(_)) {
            return Fault::None;
        }
        if let Some(slow) = slow.take() {
            slow.send(outbox.slow()).unwrap();
        }
        UNAVAILABLE
    });
    is_slow
}
