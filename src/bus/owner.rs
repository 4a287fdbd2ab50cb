//! The owner of a bus: ends it when the last handle is dropped.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::bus::Inner;

/// Ends the bus when the last handle is dropped, unless it was shut down.
pub(super) struct BusOwner(pub(super) Arc<Inner>);

impl Drop for BusOwner {
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
            "bus dropped without shutdown; running handlers are cut and leased events wait for expiry"
        );
        // Queues may live on, but must not keep the store's file or connections open.
        if !inner.is_lent {
            let closing = inner.store.close();
            inner.runtime.spawn(closing);
        }
    }
}
