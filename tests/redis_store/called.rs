//! A node that has no room for what is ready calls the nodes of other processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::event::BucketKey;
use duly::store::operation::{MoveReport, Reply, StoreOp};
use duly::store::{Store, Watcher};

use crate::redis_store::kit::{Bare, fresh, until};
use crate::servers::shared;

#[derive(Default)]
struct Called(AtomicUsize);

impl Watcher for Called {
    fn earlier(&self, _bucket: &BucketKey) {}

    fn called(&self, _bucket: &BucketKey) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Called {
    async fn beside(bare: &Bare) -> Arc<Self> {
        let called = Arc::new(Self::default());
        let watcher: Arc<dyn Watcher> = Arc::clone(&called) as _;
        bare.store.watch(Arc::downgrade(&watcher)).unwrap();
        bare.fetch(1, 0).await.unwrap(); // it listens from the first look on
        called
    }

    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn whoever_has_no_room_calls_the_others_and_not_itself() {
    let (url, _) = fresh(&shared().url());
    let (full, other) = (Bare::open(&url).await, Bare::open(&url).await);
    let by_full = Called::beside(&full).await;
    let by_other = Called::beside(&other).await;
    let moves = |calls| full.apply(StoreOp::MoveDue { limit: 10, calls });
    let nothing = moves(true).await.unwrap();
    assert!(matches!(nothing, Reply::Moved(MoveReport { ready: 0, .. })));

    full.push(full.new_id(), Duration::ZERO).await.unwrap();
    until("the other one is called", async || {
        // A call that nobody listens to yet is lost.
        let moved = moves(true).await.unwrap();
        assert!(
            matches!(moved, Reply::Moved(MoveReport { ready: 1, .. })),
            "{moved:?}"
        );
        by_other.times() > 0
    })
    .await;
    assert_eq!(by_full.times(), 0);
}
