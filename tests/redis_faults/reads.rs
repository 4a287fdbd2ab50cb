//! The connection ends at a read, which is repeated, and is never of unknown effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::{Bus, ErrorKind, EventId, Queue, Result};

use crate::redis_faults::scripts::Call;
use crate::servers::{Fault, Proxy, Redis, RedisOptions};

/// Each script that only reads, and a read of the bus that calls it.
const SCRIPTS: [&str; 6] = ["look", "stats", "peek", "forecast", "read_dead", "outbox"];

async fn read(bus: &Bus, queue: &Queue<u64>, id: EventId, script: &str) -> Result<bool> {
    Ok(match script {
        "look" => queue.get(id).await?.is_some(),
        "stats" => bus.stats("reads").await?.scheduled == 1,
        "peek" => queue.events().page().await?.items.len() == 1,
        "forecast" => {
            let hour = Duration::from_secs(3_600);
            bus.forecast("reads", 2 * hour, hour).await?.len() == 2
        }
        "read_dead" => {
            let letters = bus.dead_letters().queue("reads");
            letters.page().await?.items.is_empty()
        }
        _ => {
            let records = bus.records().only_waiting();
            records.page().await?.items.is_empty()
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_whose_connection_is_cut_is_repeated_once_and_never_unknown() {
    let redis = Redis::start(RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    });
    let proxy = Proxy::before(redis.address());
    let bus = Bus::builder().store_url(proxy.url()).publish_only();
    let bus = bus.start().await.unwrap();
    let queue = bus.queue_named::<u64>("reads").unwrap();
    let id = queue
        .push(7, Duration::from_secs(3_600))
        .await
        .unwrap()
        .id();
    let faults = [Fault::CutAfter, Fault::CutWithin].into_iter().cycle();
    for (script, fault) in SCRIPTS.into_iter().zip(faults) {
        for most in [1, usize::MAX] {
            let (call, cuts) = (Call::of(script), Arc::new(AtomicUsize::new(0)));
            let counted = Arc::clone(&cuts);
            proxy.on_request(move |bytes| {
                let cut = call.is_in(bytes) && counted.load(Ordering::Relaxed) < most;
                cut.then(|| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    fault
                })
            });
            let answer = read(&bus, &queue, id, script).await;
            let cuts = cuts.load(Ordering::Relaxed);
            assert!((1..=2).contains(&cuts), "{script} {fault:?}: {cuts} cuts");
            match most {
                1 => assert!(answer.unwrap(), "{script} {fault:?}"),
                _ => {
                    let kind = answer.unwrap_err().kind();
                    assert_eq!(kind, ErrorKind::Unavailable, "{script} {fault:?}");
                }
            }
            proxy.heal();
            while read(&bus, &queue, id, script).await.is_err() {
                tokio::task::yield_now().await;
            }
        }
    }
    bus.shutdown(Duration::from_secs(1)).await.unwrap();
}
