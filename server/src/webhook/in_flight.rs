//! The deliveries of a runner that are in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::places::RequestPlace;

/// The deliveries.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    count: AtomicUsize,
    /// Whether one of them waits for a call of the shared rate.
    is_throttled: AtomicBool,
    /// One has ended, or has got its call.
    freed: Notify,
}

impl InFlight {
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until there are fewer than `most`, and none waits for the shared rate; returns how many
    /// more there may be.
    pub(super) async fn free(&self, most: usize) -> usize {
        loop {
            let freed = self.freed.notified();
            let free = most.saturating_sub(self.count());
            if free > 0 && !self.is_throttled.load(Ordering::SeqCst) {
                return free;
            }
            freed.await;
        }
    }

    /// Begins a delivery, which may have a place already.
    pub(super) fn begin(self: &Arc<Self>, place: Option<RequestPlace>) -> Slot {
        self.count.fetch_add(1, Ordering::SeqCst);
        let all = Arc::clone(self);
        Slot { all, place }
    }
}

/// A delivery in flight.
#[derive(Debug)]
pub(super) struct Slot {
    all: Arc<InFlight>,
    /// The place of its request, unless it has to wait for one.
    pub(super) place: Option<RequestPlace>,
}

impl Slot {
    /// Waits for the shared rate from now on, unless another delivery does: one event is enough to learn
    /// when there are calls again.
    pub(super) fn throttle(&self) -> Option<Throttled> {
        let was_throttled = self.all.is_throttled.swap(true, Ordering::SeqCst);
        (!was_throttled).then(|| Throttled(Arc::clone(&self.all)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.all.count.fetch_sub(1, Ordering::SeqCst);
        self.all.freed.notify_one();
    }
}

/// A delivery that waits for a call of the shared rate.
#[derive(Debug)]
pub(super) struct Throttled(Arc<InFlight>);

impl Drop for Throttled {
    fn drop(&mut self) {
        self.0.is_throttled.store(false, Ordering::SeqCst);
        self.0.freed.notify_one();
    }
}
