//! Several relays that come and go while the store has faults: of each unique key the last event stands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly::store::{MemoryStore, Store, operation::StoreOp};
use futures_util::future::join_all;

use crate::databases::Outbox;
use crate::faulty::{Fault, Faulty};
use crate::world::{Seen, builder, order, orders};

const RELAYS: usize = 3;
const KEYS: u64 = 8;
const EVENTS: u64 = 150;

fn fault(random: &mut fastrand::Rng) -> Fault {
    match random.u8(..40) {
        0..4 => Fault::Refused(ErrorKind::Unavailable),
        4..6 => Fault::Refused(ErrorKind::Full),
        6..10 => Fault::Lost,
        10 => Fault::Held(Duration::from_millis(1_200)), // the page does not wait for it
        _ => Fault::None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_each_key_the_last_event_stands() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("DULY_OUTBOX_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("DULY_OUTBOX_SEED={seed}");
    let outboxes = Outbox::all().await;
    join_all(outboxes.map(|outbox| stands(outbox, seed))).await;
}

async fn stands(outbox: Outbox, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut faults = random.fork();
    let seen = Seen::default();
    let near: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let store = Faulty::to(&near);
    let shared: Arc<dyn Store> = store.clone();
    let bus = builder(&seen).shared_store(shared).start().await.unwrap();
    bus.set_buckets("orders", Some(2)).await.unwrap();
    bus.pause("orders").await.unwrap();
    let queue = orders(&bus);
    store.meets(move |_, op| match op {
        StoreOp::Push(_) => fault(&mut faults),
        _ => Fault::None,
    });
    let mut relays = Vec::new();
    for _ in 0..RELAYS {
        relays.push(outbox.relay(&bus).await);
    }
    let mut last = BTreeMap::new();
    for number in 0..EVENTS {
        let key = random.u64(..KEYS);
        let event = queue.event(order(number));
        let event = event.unique(format!("'{key}' ü\\"), Unique::Replace);
        outbox.push_events(vec![event]).await;
        last.insert(key, number);
        if random.u8(..16) == 0 {
            let relay = relays.swap_remove(random.usize(..RELAYS));
            if random.bool() {
                relay.stop().await;
            } else {
                drop(relay); // as if it was killed
            }
            relays.push(outbox.relay(&bus).await);
        }
    }
    store.meets(|_, _| Fault::None);
    outbox.settled().await;
    for relay in relays {
        relay.stop().await;
    }
    bus.resume("orders").await.unwrap();
    seen.reach(last.len()).await;
    let mut expected: Vec<_> = last.into_values().collect();
    expected.sort_unstable();
    assert_eq!(seen.numbers(), expected, "{}", outbox.name());
}
