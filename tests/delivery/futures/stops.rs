//! The stop itself: dropped at every await, asked for twice, and beside a handler that blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duly::prelude::*;
use duly::records::Cause;
use duly::store::{EmbeddedStore, Store};
use duly::testing::Probe;
use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::beside::WATCHDOG;
use super::slow::Slow;
use super::stage::{HANDLED, builder};
use crate::world::{World, ms, secs};

over_every_store! {
    a_stop_that_is_dropped_half_way_goes_on,
}

/// Polled so often, then dropped: the handler has its grace all the same, and a second call waits
/// for the same stop.
async fn a_stop_that_is_dropped_half_way_goes_on(world: World) {
    let mut world = world;
    for polls in 1..40 {
        let probe = Probe::<u64>::taking(secs(1));
        let bus = world.start(builder(Slow::over(&world.store), &probe)).await;
        let queue = bus.queue_named::<u64>("handled").unwrap();
        let id = queue.push(1, When::Now).await.unwrap().id();
        bus.advance(ms(100)).await;
        assert_eq!(probe.running_now(), 1);
        let mut stop = Box::pin(bus.shutdown(secs(30)));
        for _ in 0..polls {
            assert!((&mut stop).now_or_never().is_none(), "a handler runs");
            tokio::task::yield_now().await;
        }
        drop(stop);
        assert_eq!(
            probe.running_now(),
            1,
            "after {polls} polls: the handler is cut"
        );
        bus.shutdown(Duration::ZERO).await.unwrap();
        let ended = probe.seen()[0].ended.unwrap();
        assert_eq!(ended - probe.seen()[0].at, secs(1), "after {polls} polls");
        let refused = queue.push(2, When::Now).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed);
        drop((bus, queue));
        world = world.restart();
        let bus = world.start(world.builder().publish_only()).await;
        assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Acked]);
        bus.shutdown(secs(5)).await.unwrap();
        drop(bus);
        world = world.restart();
    }
}

/// As `#[tokio::main]` with a time-out around the stop does it, on threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_times_out_in_its_caller_settles_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("duly.db");
    let may_end = Arc::new(Semaphore::new(0));
    let probe = Probe::<u64>::running({
        let may_end = Arc::clone(&may_end);
        move |_event, _cx| {
            let may_end = Arc::clone(&may_end);
            async move {
                may_end.acquire().await.expect("it is open").forget();
                Ok(())
            }
        }
    });
    let store = Arc::new(EmbeddedStore::open(&path).unwrap()) as Arc<dyn Store>;
    let bus = builder(Arc::clone(&store), &probe).start().await.unwrap();
    let queue = bus.queue_named::<u64>("handled").unwrap();
    let id = queue.push(1, When::Now).await.unwrap().id();
    while probe.running_now() == 0 {
        tokio::time::sleep(ms(1)).await;
    }
    let cut = timeout(ms(20), bus.shutdown(secs(60))).await;
    assert!(cut.is_err(), "a handler runs");
    let second = tokio::spawn({
        let bus = bus.clone();
        async move { bus.shutdown(secs(60)).await }
    });
    may_end.add_permits(1);
    let second = timeout(WATCHDOG, second).await.expect("it returns");
    second.unwrap().unwrap();
    drop((bus, queue));
    store.close().await.unwrap(); // it was shared
    let bus = Bus::builder().store_url(format!("sqlite:{}", path.display()));
    let bus = bus.publish_only().start().await.unwrap();
    let records = bus.records().id(id).page().await.unwrap().items;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].outcome, Outcome::Acked);
    bus.shutdown(secs(5)).await.unwrap();
}

/// A thread that blocks is not awaited for longer than the grace and some seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_does_not_take_the_grace_twice() {
    let (began, may_end) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let probe = Probe::<u64>::running({
        let (began, may_end) = (Arc::clone(&began), Arc::clone(&may_end));
        move |_event, _cx| {
            let (began, may_end) = (Arc::clone(&began), Arc::clone(&may_end));
            async move {
                began.store(true, Ordering::Release);
                while !may_end.load(Ordering::Acquire) {
                    std::thread::yield_now();
                    std::thread::sleep(ms(1));
                }
                Ok(())
            }
        }
    });
    let bus = Bus::builder().store_url("memory:").only_registered();
    let bus = bus
        .register_as(HANDLED, probe.clone())
        .start()
        .await
        .unwrap();
    let queue = bus.queue_named::<u64>("handled").unwrap();
    queue.push(1, When::Now).await.unwrap();
    while !began.load(Ordering::Acquire) {
        tokio::time::sleep(ms(1)).await;
    }
    // As long as a supervisor is told to wait for it, and no second one.
    let grace = secs(15);
    let stopping = Instant::now();
    let stopped = timeout(WATCHDOG, bus.shutdown(grace)).await;
    let took = stopping.elapsed();
    may_end.store(true, Ordering::Release);
    let error = stopped.expect("it returns").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(took >= grace && took < grace + secs(10), "{took:?}");
    let again = bus.shutdown(grace).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::TimedOut, "the same result");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_that_is_dropped_and_opened_again_at_once_opens() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("duly.db").display());
    for number in 0..40_u64 {
        let builder = Bus::builder().only_registered().store_url(&url);
        let bus = builder
            .register_as(HANDLED, Probe::<u64>::new())
            .start()
            .await;
        let bus = bus.unwrap_or_else(|error| panic!("the {number}th time: {error}"));
        let queue = bus.queue_named::<u64>("handled").unwrap();
        queue.push_many(0..50, Duration::ZERO).await.unwrap();
        drop(bus);
    }
}

/// The grace begins: a handler puts away what it has, and loses no attempt.
#[tokio::test(start_paused = true)]
async fn a_handler_is_told_when_the_grace_begins() {
    let world = World::memory();
    let probe = Probe::<u64>::running(|_event, cx| {
        let (stopping, cancelled) = (cx.stopping(), cx.cancellation());
        async move {
            stopping.cancelled().await;
            assert!(!cancelled.is_cancelled());
            Err(Failure::snooze(secs(1)))
        }
    });
    let (bus, queue) = world.serve(HANDLED, &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(10)).await;
    assert_eq!(probe.running_now(), 1);
    bus.shutdown(secs(30)).await.unwrap();
    assert_eq!(world.clock.elapsed(), secs(10));
    let world = world.restart();
    let (bus, queue) = world.push_only::<u64>("handled").await;
    assert_eq!(queue.get(id).await.unwrap().unwrap().tries, 0);
    let history = bus.history(id).await.unwrap();
    assert_eq!(history[0].outcome, Outcome::Snoozed);
    assert_ne!(history[0].cause, Some(Cause::Interrupted));
}
