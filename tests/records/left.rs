//! What a node on Redis left when it died, in buckets in which nothing happens any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duly::Annotation;
use duly::journal::{Journal, MemoryJournal};
use duly::prelude::*;
use duly::records::Query;
use duly::store::{RedisStore, Store};
use duly::testing::Probe;

use crate::records::bad::{Bad, Mode};
use crate::records::world::secs;
use crate::servers::Redis;

/// Waits until it is so.
#[allow(clippy::disallowed_methods)] // real time: this is about a real server
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(
            began.elapsed() < secs(20),
            "{what}: after 20 s it is not so"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A node of its own, with one queue.
async fn node(url: &str, journal: Arc<dyn Journal>, queue: &'static str) -> Bus {
    Bus::builder()
        .only_registered()
        .settings(Default::default())
        .store(RedisStore::open(url).await.expect("the store opens"))
        .shared_journal(journal)
        .register_as(Annotation::new(queue).attempts(1), Probe::<u64>::new())
        .start()
        .await
        .expect("it starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_node_left_in_a_quiet_bucket_is_recorded_within_seconds() {
    let redis = Redis::plain();
    let url = redis.url();
    let store = RedisStore::open(&url).await.expect("the store opens");
    assert!(
        store.fallback_poll_every() > secs(60),
        "nobody looks by himself"
    );

    let journal = Arc::new(MemoryJournal::new());
    let recorded = async || {
        let page = journal.page(Query::default()).await;
        page.expect("it is in memory").records.len()
    };
    let survivor = node(&url, Arc::clone(&journal) as _, "other").await;
    let other = survivor.queue_named::<u64>("other").expect("a legal name");
    other.push(1, secs(0)).await.expect("it is there");
    until("the survivor has looked at its start", async || {
        recorded().await == 1
    })
    .await;

    let broken = Bad::default();
    broken.now(Mode::Hangs);
    let dead = node(&url, Arc::new(broken), "orders").await;
    let orders = dead.queue_named::<u64>("orders").expect("a legal name");
    orders.push_many(0..10, secs(0)).await.expect("it is there");
    let waiting = async || {
        let mut waiting = 0;
        for outbox in store.outboxes().await.expect("it answers") {
            let page = store.read_outbox(&outbox, 0, 0).await.expect("it answers");
            waiting += page.next - page.first;
        }
        waiting
    };
    until("ten records wait", async || waiting().await == 10).await;
    drop((dead, orders)); // it is killed

    until("the survivor has recorded them", async || {
        recorded().await == 11
    })
    .await;
    until("nothing waits", async || waiting().await == 0).await;
}
