//! A subscriber of log lines that panics at each: it is the program's code, in the middle of a store.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duly::time::When;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Metadata, Subscriber};

use crate::redis_store::damage::flip;
use crate::redis_store::kit::{Bare, fresh};
use crate::servers::shared;

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
