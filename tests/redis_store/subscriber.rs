//! A subscriber of log lines that panics at each: it is the program's code, in the middle of a store.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duly::event::BucketKey;
use duly::store::{Store, Watcher};
use duly::time::When;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Metadata, Subscriber};

use crate::redis_store::damage::flip;
use crate::redis_store::kit::{Bare, fresh, until};
use crate::servers::{Proxy, Redis, RedisOptions, shared};

/// Counts the lines at which it panics.
struct Panicking(Arc<AtomicUsize>);

impl Subscriber for Panicking {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("duly")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        resume_unwind(Box::new("a subscriber"));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Panicking {
    /// Hears this thread, on which a store without a bus does everything.
    fn here() -> (Arc<AtomicUsize>, [Dispatch; 1], DefaultGuard) {
        let lines = Arc::new(AtomicUsize::new(0));
        // Beside a single one, a line that another thread reaches first is disabled for all.
        let second = Dispatch::new(NoSubscriber::default());
        let guard = tracing::subscriber::set_default(Self(Arc::clone(&lines)));
        (lines, [second], guard)
    }
}

#[derive(Default)]
struct Told(AtomicUsize);

impl Watcher for Told {
    fn earlier(&self, _: &BucketKey) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn called(&self, _: &BucketKey) {}
}

#[tokio::test]
async fn notifications_go_on_though_a_subscriber_panics_at_their_loss() {
    let server = Redis::start(RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    });
    let proxy = Proxy::before(server.address());
    let bare = Bare::open(&fresh(&proxy.url()).0).await;
    let told = Arc::new(Told::default());
    let watcher: Arc<dyn Watcher> = Arc::clone(&told) as _;
    bare.store
        .watch(Arc::downgrade(&watcher))
        .expect("there is room");
    let take = || told.0.swap(0, Ordering::Relaxed) > 0;
    bare.fetch(1, 1).await.expect("a fetch");
    until("it has subscribed", async || take()).await;
    let (lines, _second, guard) = Panicking::here();
    proxy.refuse(true);
    proxy.cut_all();
    until("its loss was logged", async || {
        lines.load(Ordering::Relaxed) > 3
    })
    .await;
    drop(guard);
    take();
    proxy.heal();
    until("it has subscribed again", async || take()).await;
}

#[tokio::test]
async fn what_is_damaged_is_buried_though_a_subscriber_panics_at_it() {
    let (url, prefix) = fresh(&shared().url());
    let bare = Bare::open(&url).await;
    let (damaged, whole) = (bare.new_id(), bare.new_id());
    for id in [damaged, whole] {
        bare.push(id, When::Now).await.expect("a push");
    }
    flip(shared(), &prefix, damaged, 12, 1);
    let (lines, _second, _guard) = Panicking::here();
    assert_eq!(bare.fetch(1, 9).await.expect("a fetch"), [whole]);
    assert_eq!(lines.load(Ordering::Relaxed), 1);
}
