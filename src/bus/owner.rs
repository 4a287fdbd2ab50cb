//! The owner of a bus: ends it when the last handle is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::bus::inner::Inner;
use crate::panics;

/// Ends the bus when the last handle is dropped, unless it was shut down.
pub(super) struct BusOwner(pub(super) Arc<Inner>);

impl Drop for BusOwner {
    fn drop(&mut self) {
        let inner = &self.0;
        if inner.stop.has_begun() {
            return; // it goes on without its callers
        }
        let mut flow = inner.flow.write();
        drop(flow.take());
        drop(flow);
        if let Some(recorded) = &inner.recorded {
            recorded.abandon();
        }
        if inner.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        panics::reported(|| {
            tracing::warn!(
                node = %inner.id,
                "bus dropped without shutdown; running handlers are cut and leased events wait \
                 for expiry"
            );
        });
        // Queues may live on, but must not keep the store's file or connections open.
        inner.runtime.spawn(inner.close_unless_shared());
    }
}
