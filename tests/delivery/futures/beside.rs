//! Each public future beside a stop, in many rounds: it returns in its time, and what it says of a
//! push is true.

use std::sync::Arc;
use std::time::Duration;

use duly::BusBuilder;
use duly::prelude::*;
use duly::store::{MemoryStore, Store};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::stage::{Stage, echo, serving};
use super::table::CALLS;
use crate::servers;
use crate::world::{Numbers, secs};

/// A call that has not returned by then hangs.
pub(super) const WATCHDOG: Duration = Duration::from_secs(60);

/// How a bus ends.
const ENDS: u64 = 4;
/// The last handle is dropped.
const DROP: u64 = 3;

fn from_environment(name: &str, default: u64) -> u64 {
    let given = std::env::var(name);
    given.map_or(default, |text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_memory_each_call_beside_a_stop_returns_and_is_true() {
    let mut kept = None;
    rounds(10, move |is_new| {
        if is_new {
            kept = Some(Arc::new(MemoryStore::new()) as Arc<dyn Store>);
        }
        Bus::builder().shared_store(kept.clone().expect("the first is new"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_each_call_beside_a_stop_returns_and_is_true() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let mut number = 0;
    rounds(10, move |is_new| {
        number += u64::from(is_new);
        let path = folder.path().join(format!("{number}.db"));
        Bus::builder().store_url(format!("sqlite:{}", path.display()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_server_each_call_beside_a_stop_returns_and_is_true() {
    let mut url = String::new();
    rounds(3, move |is_new| {
        if is_new {
            // A machine that is busy is no outage.
            let patient = "timeout=30s&connect_timeout=30s";
            let server = servers::shared().url();
            url = format!("{server}?prefix={}&{patient}", servers::prefix());
        }
        Bus::builder().store_url(&url)
    })
    .await;
}

/// `open` chooses a new store if `true`, else the last one again.
#[allow(clippy::print_stdout)] // it tells which seed to run again
async fn rounds(default: u64, mut open: impl FnMut(bool) -> BusBuilder) {
    let first = from_environment("DULY_STOP_SEED", fastrand::u64(..));
    for seed in
        (0..from_environment("DULY_STOP_ROUNDS", default)).map(|more| first.wrapping_add(more))
    {
        println!("DULY_STOP_SEED={seed}");
        let (pushed, goes_on) = round(open(true), &mut Numbers(seed)).await;
        let mut again = open(false).publish_only().start().await;
        // A stop without a caller has all of its grace, and then opens the way.
        for _ in 0..if goes_on { 10_000 } else { 0 } {
            if again.is_ok() {
                break;
            }
            sleep(Duration::from_millis(1)).await;
            again = open(false).publish_only().start().await;
        }
        let bus = again.unwrap();
        let queue = bus.queue_named::<u64>("kept").unwrap();
        for (id, result) in pushed {
            let found = queue.get(id).await.unwrap().is_some();
            match result {
                Ok(receipt) => assert!(receipt.is_accepted() && found, "{id} is lost"),
                Err(error) if error.kind() == ErrorKind::Closed => {
                    assert!(!found, "{id} was refused and is there");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unknown, "{error}"),
            }
        }
        bus.shutdown(secs(5)).await.unwrap();
    }
}

/// What was pushed, and whether a stop goes on.
async fn round(
    builder: BusBuilder,
    numbers: &mut Numbers,
) -> (Vec<(EventId, duly::Result<Receipt>)>, bool) {
    let bus = serving(builder, &echo()).start().await.unwrap();
    let way = numbers.below(ENDS);
    let mut stages = Vec::new();
    for call in CALLS.iter().chain(CALLS) {
        // A paused queue never has room, and who waits for it in `Bus::publish` keeps the bus.
        if way == DROP && call.place.1 == "pause" {
            continue;
        }
        stages.push((call, Stage::of(&bus).await.unwrap()));
    }
    let mut calls = JoinSet::new();
    for (call, stage) in stages {
        let wait = Duration::from_micros(numbers.below(3_000));
        calls.spawn(async move {
            sleep(wait).await;
            let Ok(result) = timeout(WATCHDOG, (call.run)(stage)).await else {
                panic!("{:?} beside a stop never returns", call.place);
            };
            if let Err(error) = result {
                let fits = matches!(error.kind(), ErrorKind::Closed | ErrorKind::NotFound);
                assert!(fits, "{:?}: {:?} {error}", call.place, error.kind());
            }
        });
    }
    let mut pushes = JoinSet::new();
    for _ in 0..8 {
        let queue = bus.queue_named::<u64>("kept").unwrap();
        pushes.spawn(async move {
            let mut pushed = Vec::new();
            loop {
                let id = queue.new_id();
                let result = queue.event(1).after(secs(3_600)).id(id).push().await;
                let is_over = result.is_err();
                pushed.push((id, result));
                if is_over {
                    return pushed;
                }
                tokio::task::yield_now().await;
            }
        });
    }
    sleep(Duration::from_micros(numbers.below(4_000))).await;
    let grace = Duration::from_millis(numbers.below(20));
    match way {
        0 => bus.shutdown(grace).await.unwrap(),
        1 => {
            let one = timeout(WATCHDOG, bus.shutdown(grace));
            let other = timeout(WATCHDOG, bus.shutdown(grace));
            let (one, other) = tokio::join!(one, other);
            assert!(one.unwrap().is_ok() && other.unwrap().is_ok());
        }
        2 => {
            let _ = timeout(
                Duration::from_micros(numbers.below(500)),
                bus.shutdown(grace),
            )
            .await;
            drop(bus); // the stop goes on
        }
        _ => drop(bus),
    }
    let ended = timeout(WATCHDOG, calls.join_all()).await;
    assert!(ended.is_ok(), "a call never returns");
    let pushed = timeout(WATCHDOG, pushes.join_all()).await;
    let pushed = pushed.expect("a push never returns");
    (pushed.into_iter().flatten().collect(), way == 2)
}
