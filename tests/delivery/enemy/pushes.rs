//! Pushes beside a metrics recorder that panics: each returns what the store has decided, as whoever
//! sees no receipt pushes again.

use std::sync::atomic::{AtomicUsize, Ordering};

use duly::prelude::*;

use super::neighbours::Panicking;
use super::pulls::RECORDER;
use crate::servers;
use crate::world::{World, secs};

over_every_store! { a_recorder_that_panics_costs_no_receipt }

#[tokio::test(start_paused = true)]
async fn shared() {
    a_recorder_that_panics_costs_no_receipt(World::shared()).await;
}

async fn a_recorder_that_panics_costs_no_receipt(world: World) {
    let (when, _counted_here) = recorder();
    let bus = world.start(world.builder().publish_only()).await;
    beside(&bus, when).await;
    bus.shutdown(secs(1)).await.unwrap();
}

/// On real time and a real server.
#[tokio::test]
async fn redis() {
    let (when, _counted_here) = recorder();
    let url = format!("{}?prefix={}", servers::shared().url(), servers::prefix());
    let builder = Bus::builder().only_registered().store_url(url);
    let builder = builder.settings(Default::default()).publish_only();
    let bus = builder.start().await.unwrap();
    beside(&bus, when).await;
    bus.shutdown(secs(30)).await.unwrap();
}

/// The recorder of this thread, and when it panics.
fn recorder() -> (&'static AtomicUsize, impl Drop) {
    let when: &'static AtomicUsize = Box::leak(Box::default());
    let panicking: &'static Panicking = Box::leak(Box::new(Panicking(when)));
    (when, metrics::set_default_local_recorder(panicking))
}

async fn beside(bus: &Bus, when: &AtomicUsize) {
    for misdeed in RECORDER {
        let name = |queue: &str| format!("{queue}-{misdeed}");
        let known = bus.queue_named::<u64>(&name("known")).unwrap();
        when.store(misdeed, Ordering::Relaxed);
        let new = bus.queue_named::<u64>(&name("new")).unwrap();
        for queue in [&known, &new] {
            each_push(queue).await;
        }
        when.store(0, Ordering::Relaxed);
        for queue in [&known, &new] {
            let stats = bus.stats(queue.name()).await.unwrap();
            assert_eq!(stats.ready, 11, "{misdeed}");
        }
    }
}

/// Each way to push, and each result.
async fn each_push(queue: &Queue<u64>) {
    let id = queue.new_id();
    let push = |payload| queue.event(payload).id(id).push();
    assert!(push(1).await.unwrap().is_accepted());
    assert!(push(1).await.unwrap().is_duplicate());
    let refused = push(2).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(queue.push(3, When::Now).await.unwrap().is_accepted());

    let many = queue.push_many([4, 5, 6], When::Now).await.unwrap();
    assert!(many.iter().all(Receipt::is_accepted));
    let all = queue.push_many([7, 8, 9], When::Now).all_or_none();
    assert!(all.await.unwrap().iter().all(Receipt::is_accepted));
    let mixed = || [queue.event(2).id(id), queue.event(1).id(id)];
    let mixed = mixed()
        .into_iter()
        .chain([10, 11, 12].map(|it| queue.event(it)));
    let each = queue.push_many(mixed, When::Now).each().await.unwrap();
    let is_accepted = each
        .iter()
        .map(|it| it.as_ref().is_ok_and(Receipt::is_accepted));
    assert_eq!(
        is_accepted.collect::<Vec<_>>(),
        [false, false, true, true, true]
    );
    let again = queue.push_many([queue.event(2).id(id)], When::Now);
    let refused = again.all_or_none().await;
    assert!(refused.is_err());
}
