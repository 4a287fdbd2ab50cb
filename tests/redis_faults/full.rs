//! A server whose memory is full.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::ErrorKind;
use duly::handler::Annotation;
use duly::prelude::*;
use duly::store::RedisStore;

use crate::servers::{Redis, RedisOptions};

const LETTERS: Annotation = Annotation::new("letters");

/// Notes which it has seen.
struct Read(Arc<Mutex<BTreeSet<EventId>>>);

impl Handler for Read {
    type Payload = String;

    async fn handle(&self, event: Event<String>, _cx: &Context) -> Result<(), Failure> {
        self.0.lock().expect("nobody panics").insert(event.id());
        Ok(())
    }
}

fn builder() -> duly::BusBuilder {
    Bus::builder()
        .only_registered()
        .settings(Default::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_refuses_pushes_and_drains_to_the_end() {
    let redis = Redis::start(RedisOptions {
        maxmemory: Some(12 * 1024 * 1024),
        ..RedisOptions::default()
    });
    let url = redis.url();
    let open = async || RedisStore::open(&url).await.expect("a store");
    let pushing = builder().publish_only().store(open().await).start().await;
    let pushing = pushing.expect("a start");
    let queue: Queue<String> = pushing.queue_named("letters").expect("a legal name");

    let mut sent = BTreeSet::new();
    let refused = loop {
        let delay = Duration::from_millis(fastrand::u64(..20));
        match queue.push("x".repeat(1_000), delay).await {
            Ok(receipt) => assert!(sent.insert(receipt.id())),
            Err(error) => break error,
        }
        assert!(sent.len() < 100_000, "it is never full");
    };
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert!(!refused.to_string().is_empty());

    let seen = Arc::new(Mutex::default());
    let handler = Read(Arc::clone(&seen));
    let working = builder()
        .store(open().await)
        .register_as(LETTERS, handler)
        .start()
        .await
        .expect("a start on a full server");
    let has_drained = || seen.lock().expect("nobody panics").len() >= sent.len();
    for _ in 0..6_000 {
        if has_drained() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(*seen.lock().expect("nobody panics"), sent);
    let again = queue.push_now("x".repeat(1_000)).await;
    let again = again.expect("there is room again").id();
    for _ in 0..1_000 {
        if seen.lock().expect("nobody panics").contains(&again) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(seen.lock().expect("nobody panics").contains(&again));
    println!(
        "full: {} pushed, then refused; all handled, and pushes again",
        sent.len()
    );
    working
        .shutdown(Duration::from_secs(5))
        .await
        .expect("a stop");
    pushing
        .shutdown(Duration::from_secs(5))
        .await
        .expect("a stop");
}
