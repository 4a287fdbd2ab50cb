//! Each public future after a stop, on another runtime, and after the runtime of its bus has ended.

use std::time::Duration;

use duly::BusBuilder;
use duly::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::beside::WATCHDOG;
use super::stage::{Stage, echo, serving};
use super::table::{After, CALLS, Call};
use crate::servers;
use crate::world::secs;

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

/// One that runs its tasks only while somebody blocks on it.
fn idle_runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs a test on each store.
fn over_each(test: impl Fn(BusBuilder)) {
    over_both(&test);
    let url = format!("{}?prefix={}", servers::shared().url(), servers::prefix());
    test(Bus::builder().store_url(url));
}

/// Runs a test on each store of one process.
fn over_both(test: impl Fn(BusBuilder)) {
    test(Bus::builder().store_url("memory:"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("duly.db");
    test(Bus::builder().store_url(format!("sqlite:{}", path.display())));
}

/// A bus, and a stage for each call.
async fn prepared(builder: BusBuilder) -> (Bus, Vec<(&'static Call, Stage)>) {
    let bus = serving(builder, &echo()).start().await.unwrap();
    let mut stages = Vec::new();
    for call in CALLS {
        stages.push((call, Stage::of(&bus).await.unwrap()));
    }
    (bus, stages)
}

/// Makes all calls at once and checks each result; those that set something first, in their order, as
/// the others wait while a queue is paused.
async fn each(stages: Vec<(&'static Call, Stage)>, check: impl Fn(&Call, duly::Result<()>)) {
    let mut waiting = Vec::new();
    let mut calls = tokio::task::JoinSet::new();
    for (call, stage) in stages {
        let called = async move { (call, timeout(WATCHDOG, (call.run)(stage)).await) };
        match call.place.1 {
            "pause" | "resume" | "set_workers_everywhere" | "set_rate" | "set_buckets" => {
                drop(calls.spawn(std::future::ready(called.await)));
            }
            _ => waiting.push(called),
        }
    }
    waiting
        .into_iter()
        .for_each(|called| drop(calls.spawn(called)));
    while let Some(ended) = calls.join_next().await {
        let (call, result) = ended.unwrap();
        let Ok(result) = result else {
            panic!("{:?} never returns", call.place);
        };
        check(call, result);
    }
}

fn is_closed(call: &Call, result: &duly::Result<()>) {
    if call.after == After::Read && result.is_ok() {
        return;
    }
    let kind = result.as_ref().err().map(Error::kind);
    assert_eq!(
        kind,
        Some(ErrorKind::Closed),
        "{:?}: {result:?}",
        call.place
    );
}

#[test]
fn after_a_stop_each_call_is_refused() {
    over_each(|builder| {
        runtime().block_on(async {
            let (bus, stages) = prepared(builder).await;
            bus.shutdown(secs(5)).await.unwrap();
            each(stages, |call, result| is_closed(call, &result)).await;
            bus.shutdown(secs(5)).await.unwrap();
        });
    });
}

#[test]
fn after_the_last_handle_is_dropped_each_call_is_refused() {
    over_each(|builder| {
        runtime().block_on(async {
            let (bus, stages) = prepared(builder).await;
            let stages = stages.into_iter().map(|(call, mut stage)| {
                stage.bus = Bus::clone(&bus);
                (call, stage)
            });
            let stages: Vec<_> = stages.collect();
            bus.shutdown(Duration::ZERO).await.unwrap();
            drop(bus);
            each(stages, |call, result| is_closed(call, &result)).await;
        });
    });
}

#[test]
fn on_another_runtime_each_call_works() {
    over_each(|builder| {
        let (home, other) = (runtime(), idle_runtime());
        let (bus, stages) = home.block_on(prepared(builder));
        other.block_on(async {
            each(stages, |call, result| {
                assert!(result.is_ok(), "{:?}: {result:?}", call.place);
            })
            .await;
            bus.shutdown(secs(5)).await.unwrap();
        });
    });
}

/// What needs the runtime is refused, all else works: the store is there.
#[test]
fn after_its_runtime_has_ended_each_call_returns() {
    over_both(|builder| {
        let (home, other) = (runtime(), idle_runtime());
        let (bus, stages) = home.block_on(prepared(builder));
        home.shutdown_timeout(secs(30));
        other.block_on(async {
            each(stages, |call, result| match call.after {
                After::ClosedWithItsRuntime => is_closed(call, &result),
                After::Closed | After::Read => {
                    assert!(result.is_ok(), "{:?}: {result:?}", call.place);
                }
            })
            .await;
            let stopped = timeout(WATCHDOG, bus.shutdown(secs(1))).await;
            let error = stopped.expect("it returns").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        });
        drop(bus);
    });
}

/// The connections went with it: whether a call still comes through is open, but not whether it
/// returns.
#[test]
fn after_its_runtime_has_ended_each_call_to_a_server_returns() {
    let url = format!("{}?prefix={}", servers::shared().url(), servers::prefix());
    let (home, other) = (runtime(), idle_runtime());
    let (bus, stages) = home.block_on(prepared(Bus::builder().store_url(url)));
    home.shutdown_timeout(secs(30));
    other.block_on(async {
        each(stages, |call, result| {
            if call.after == After::ClosedWithItsRuntime {
                is_closed(call, &result);
            }
        })
        .await;
        let stopped = timeout(WATCHDOG, bus.shutdown(secs(1))).await;
        stopped.expect("it returns").unwrap_err();
    });
}

/// The runtime ends while callers wait on another one.
#[test]
fn those_who_wait_when_the_runtime_ends_are_refused() {
    over_each(|builder| {
        let (home, other) = (runtime(), runtime());
        let bus = home.block_on(async {
            let hanging = duly::testing::Probe::running(|_, _: &Context| std::future::pending());
            serving(builder, &hanging).start().await.unwrap()
        });
        let (handled, pulled) = (
            bus.queue_named::<u64>("handled").unwrap(),
            bus.queue_named::<u64>("pulled").unwrap(),
        );
        let lease = pulled.lease(1, secs(60)).wait(secs(3_600)).send();
        let lease = other.spawn(async move { lease.await.map(drop) });
        let call = {
            let handled = handled.clone();
            other.spawn(async move { handled.call::<u64>(1, secs(3_600)).await.map(drop) })
        };
        let publish = other.spawn(async move {
            loop {
                handled.publish(1).await?; // until the ring is full, and then it waits
            }
        });
        other.block_on(async {
            while bus.load()[0].queued < 256 || bus.load()[0].active < 4 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        home.shutdown_timeout(secs(30));
        other.block_on(async {
            for (name, waiting) in [("lease", lease), ("call", call), ("publish", publish)] {
                let ended: Result<_, _> = timeout(WATCHDOG, waiting).await;
                let result: duly::Result<()> = ended.unwrap_or_else(|_| panic!("{name}")).unwrap();
                assert_eq!(result.unwrap_err().kind(), ErrorKind::Closed, "{name}");
            }
            drop(bus);
        });
    });
}

/// The runtime is there, but nobody drives it: a call that needs it says so.
#[test]
fn on_a_runtime_that_nobody_drives_each_call_returns() {
    let (home, other) = (idle_runtime(), {
        let mut builder = Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    });
    let (bus, stages) = home.block_on(prepared(Bus::builder().store_url("memory:")));
    other.block_on(async {
        let stages = stages.into_iter();
        // Those wait for room in the ring, which there is when somebody drives it.
        let stages = stages.filter(|(call, _)| call.place.1 != "publish_many");
        each(stages.collect(), |call, result| {
            let kind = result.err().map(|error| error.kind());
            let fits = matches!(
                kind,
                None | Some(ErrorKind::Unavailable | ErrorKind::TimedOut)
            );
            assert!(fits, "{:?}: {kind:?}", call.place);
        })
        .await;
    });
    // What waits in its rings is handed back; what it has begun is not known to have ended.
    let stopped = runtime().block_on(async { timeout(WATCHDOG, bus.shutdown(secs(1))).await });
    let stopped = stopped.expect("a stop needs no runtime");
    let kind = stopped.err().map(|error| error.kind());
    assert!(matches!(kind, None | Some(ErrorKind::TimedOut)), "{kind:?}");
}
