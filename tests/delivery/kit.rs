//! What the testing kit promises to those who test with it.

use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duly::Annotation;
use duly::prelude::*;
use duly::testing::{Probe, TestBus, VirtualClock, outside};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    what_can_run_now_runs_without_any_time_passing,
    time_passes_by_what_was_asked_and_not_a_millisecond_more,
    running_until_idle_ends_with_the_last_event,
    running_until_idle_has_a_limit,
}

/// A hundred events, each of which pushes the next.
async fn what_can_run_now_runs_without_any_time_passing(world: World) {
    let probe = Probe::<u64>::running(|event, cx| {
        let queue = cx.bus().queue_named::<u64>("orders");
        async move {
            tokio::task::yield_now().await;
            if event.payload < 100 {
                queue?.push(event.payload + 1, When::Now).await?;
            }
            Ok(())
        }
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    queue.push(1, When::Now).await.unwrap();
    bus.settle().await;
    assert!(probe.payloads().into_iter().eq(1..=100));
    assert_eq!(bus.clock().elapsed(), secs(0));
}

async fn time_passes_by_what_was_asked_and_not_a_millisecond_more(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    for number in 0..50 {
        queue.push(number, ms(2)).await.unwrap();
        bus.advance(ms(1)).await;
        assert_eq!(probe.count() as u64, number, "one millisecond early");
        bus.advance(ms(1)).await;
        assert_eq!(probe.count() as u64, number + 1, "late");
    }
    assert_eq!(bus.clock().elapsed(), ms(100));
}

async fn running_until_idle_ends_with_the_last_event(world: World) {
    let probe = Probe::<u64>::answering(|event, _cx| match event.attempt() {
        1 => Err(Failure::retry_after(secs(3_600), "in an hour")),
        _ => Ok(()),
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let elsewhere = bus.queue_named::<u64>("elsewhere").unwrap();
    elsewhere.push(1, secs(1)).await.unwrap();
    queue.push(1, secs(60)).await.unwrap();
    let took = bus.run_until_idle(secs(86_400)).await.unwrap();
    assert_eq!((took, probe.count()), (secs(3_660), 2));
}

async fn running_until_idle_has_a_limit(world: World) {
    let hanging = Probe::<u64>::running(|_event, _cx| std::future::pending());
    let (bus, queue) = world.serve(ORDERS.timeout(secs(3_600)), &hanging).await;
    queue.push(1, When::Now).await.unwrap();
    let error = bus.run_until_idle(secs(60)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains("1 running"), "{error}");
    assert_eq!(bus.clock().elapsed(), secs(60));
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods)] // real time: that it does not pass is what is tested
async fn thirty_days_take_no_time() {
    let began = Instant::now();
    let world = World::memory();
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    queue.push(1, secs(30 * 86_400)).await.unwrap();
    bus.advance(secs(31 * 86_400)).await;
    assert!(began.elapsed() < secs(1), "{:?}", began.elapsed());
}

#[delay_event(queue = "slow", blocking, register = false)]
struct Slow;

impl BlockingHandler for Slow {
    type Payload = u64;

    fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        std::thread::sleep(Duration::from_millis(30)); // what blocks is what this is about
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn time_stands_still_while_a_blocking_handler_runs() {
    let bus = TestBus::start(Bus::builder().only_registered().register_blocking(Slow));
    let bus = bus.await.unwrap();
    let id = bus.queue::<Slow>().push(1, secs(5)).await.unwrap().id();
    bus.advance(secs(5)).await;
    assert_eq!(bus.starts(id).await.unwrap(), [secs(5)]);
    assert_eq!(bus.clock().elapsed(), secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_its_own_runtime_is_on_the_virtual_clock_too() {
    let probe = Probe::<u64>::taking(secs(60));
    let orders: Annotation = ORDERS.dedicated(true);
    let world = World::memory();
    let (bus, queue) = world.serve(orders.timeout(secs(600)), &probe).await;
    queue.push(1, secs(60)).await.unwrap();
    bus.advance(secs(120)).await;
    assert_eq!(probe.seen()[0].ended, Some(secs(120)));
}

#[tokio::test]
#[should_panic(expected = "time is not frozen")]
async fn a_test_bus_needs_time_that_is_paused() {
    let _ = TestBus::start(Bus::builder().only_registered()).await;
}

/// As after a restart: the attempt is one of the run before.
#[tokio::test(start_paused = true)]
async fn an_attempt_of_before_the_clock_started_at_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("duly.db").display());
    let probe = Probe::<u64>::new();
    let builder = || {
        let builder = Bus::builder().only_registered().store_url(&url);
        builder.register_as(ORDERS, probe.clone())
    };
    let bus = TestBus::start(builder()).await.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let id = queue.push(1, secs(5)).await.unwrap().id();
    bus.advance(secs(5)).await;
    assert_eq!(bus.starts(id).await.unwrap(), [secs(5)]);
    bus.shutdown(secs(1)).await.unwrap();
    let later = VirtualClock::at(bus.now() + secs(86_400));
    let bus = TestBus::start_on(Arc::new(later), builder()).await.unwrap();
    assert_eq!(bus.starts(id).await.unwrap(), [Duration::ZERO]);
}

/// Whatever a test waits for on virtual time, and however it ends meanwhile.
#[test]
fn a_test_ends_beside_what_waits_on_virtual_time() {
    type Wait = fn(&TestBus) -> BoxFuture<'_, ()>;
    let waits: [Wait; 4] = [
        |bus| bus.settle().boxed(),
        |bus| bus.advance(secs(1)).boxed(),
        |bus| bus.run_until_idle(secs(1)).map(drop).boxed(),
        |_| outside(pending()).boxed(),
    ];
    let cases = waits
        .iter()
        .flat_map(|wait| [1, 2, 3].map(|polls| (*wait, polls)));
    for (number, (wait, polls)) in cases.enumerate() {
        for fails in [false, true] {
            let (ends, ended) = std::sync::mpsc::channel();
            // A runtime that never ends would hold the test for ever.
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread();
                let runtime = { runtime }.enable_all().start_paused(true).build();
                let runtime = runtime.unwrap();
                let test = async {
                    let bus = TestBus::start(Bus::builder().only_registered()).await;
                    let bus = bus.unwrap();
                    let mut waits = wait(&bus);
                    for _ in 0..polls {
                        assert!((&mut waits).now_or_never().is_none());
                    }
                    assert!(!fails, "as a test that fails");
                };
                let test = AssertUnwindSafe(|| runtime.block_on(test));
                let result = std::panic::catch_unwind(test);
                drop(runtime);
                let _ = ends.send(result.is_err());
            });
            let ended = ended.recv_timeout(secs(60));
            assert_eq!(ended, Ok(fails), "{number} after {polls} polls");
        }
    }
}
