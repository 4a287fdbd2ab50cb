//! The end of a bus that nobody holds any more.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::bus::Inner;

/// Ends the bus when the last one who holds it lets go of it, unless it was shut down.
pub(super) struct Owner(pub(super) Arc<Inner>);

impl Drop for Owner {
    fn drop(&mut self) {
        let inner = &self.0;
        let mut flow = inner.flow.write().unwrap_or_else(PoisonError::into_inner);
        drop(flow.take());
        drop(flow);
        if let Some(recorded) = &inner.recorded {
            recorded.abandon();
        }
        if inner.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::warn!(
            node = %inner.id,
            "bus dropped without `shutdown`: what ran is cut short, what it held waits for its lease"
        );
        // Queues may live on, and must not keep the store's file or its connections.
        if !inner.is_lent {
            let closing = inner.store.close();
            inner.runtime.spawn(closing);
        }
    }
}
