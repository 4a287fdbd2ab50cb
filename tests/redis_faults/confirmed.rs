//! Pushes that were answered only once the replicas had them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::prelude::*;
use duly::store::Durability;
use tokio::task::JoinSet;

use crate::redis_faults::away::failovers;
use crate::redis_faults::pair::Pusher;
use crate::servers::Sentinels;

const PUSHERS: usize = 4;
const AN_HOUR: Duration = Duration::from_secs(3_600);

/// Each of two replicas has it, so whichever is master after a failover knows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_every_replica_has_confirmed_survives_each_failover() {
    let mut sentinels = Sentinels::start();
    let pusher = Pusher::start(&sentinels.url()).await;
    let confirmed = Arc::new(Mutex::new(BTreeSet::new()));
    let count = || confirmed.lock().expect("nobody panics").len();
    for failover in 0..failovers() {
        let goes_on = Arc::new(AtomicBool::new(true));
        let mut pushers = JoinSet::new();
        for _ in 0..PUSHERS {
            let (queue, confirmed) = (pusher.queue.clone(), Arc::clone(&confirmed));
            pushers.spawn(push(queue, confirmed, Arc::clone(&goes_on)));
        }
        let before = count();
        until("pushes are confirmed", || count() > before + 100).await;
        sentinels = tokio::task::spawn_blocking(move || {
            sentinels.failover(); // while they push
            sentinels
        })
        .await
        .expect("another one is master");
        goes_on.store(false, Ordering::Relaxed);
        pushers.join_all().await;
        sentinels = tokio::task::spawn_blocking(move || {
            sentinels.restart_dead();
            sentinels
        })
        .await
        .expect("all of them run");
        let ids = confirmed.lock().expect("nobody panics").clone();
        let mut lost = Vec::new();
        for id in &ids {
            if !is_known(&pusher.queue, *id).await {
                lost.push(*id);
            }
        }
        println!(
            "failover {failover}: {} confirmed, {} lost",
            ids.len(),
            lost.len()
        );
        assert_eq!(lost, [], "confirmed by every replica, and lost");
    }
    pusher.stop().await;
}

/// Pushes one after the other, and notes what was confirmed.
async fn push(
    queue: Queue<String>,
    confirmed: Arc<Mutex<BTreeSet<EventId>>>,
    goes_on: Arc<AtomicBool>,
) {
    while goes_on.load(Ordering::Relaxed) {
        let event = queue.event("x".to_owned()).after(AN_HOUR);
        match event.durable(Durability::Replicated(2)).push().await {
            Ok(receipt) => {
                assert_eq!(receipt.durability(), Durability::Replicated(2));
                confirmed
                    .lock()
                    .expect("nobody panics")
                    .insert(receipt.id());
            }
            // There is no master, or none with two replicas.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Whether the store has an event, once it answers.
async fn is_known(queue: &Queue<String>, id: EventId) -> bool {
    for _ in 0..200 {
        if let Ok(found) = queue.get(id).await {
            return found.is_some();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the store does not answer");
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within 30 s: {what}");
}
