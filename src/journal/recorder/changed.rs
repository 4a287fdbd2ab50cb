//! The set of outboxes that have something new.

use std::collections::BTreeSet;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::store::{Outbox, OutboxWatcher};

/// Which outboxes have something new, as stores tell it and the recorder takes it.
#[derive(Debug, Default)]
pub(super) struct ChangedOutboxes {
    changes: Mutex<Changes>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Changes {
    outboxes: BTreeSet<Outbox>,
    /// Nobody takes anything any more, and the store may still have it.
    is_over: bool,
}

impl ChangedOutboxes {
    /// Everything that was heard of since the last call.
    pub(super) fn take(&self) -> BTreeSet<Outbox> {
        std::mem::take(&mut self.changes().outboxes)
    }

    /// Waits until something was heard of that nobody has waited for yet.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// From now on nothing is kept.
    pub(super) fn end(&self) {
        *self.changes() = Changes {
            outboxes: BTreeSet::new(),
            is_over: true,
        };
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock()
    }
}

impl OutboxWatcher for ChangedOutboxes {
    fn recorded(&self, outbox: &Outbox) {
        let mut changes = self.changes();
        if changes.is_over || changes.outboxes.contains(outbox) {
            return; // whoever added it has told the recorder, and it has not taken it yet
        }
        changes.outboxes.insert(outbox.clone());
        drop(changes);
        self.arrived.notify_one();
    }
}
