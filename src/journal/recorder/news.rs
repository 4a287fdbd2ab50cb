//! The set of outboxes that have something new.

use std::collections::BTreeSet;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::store::{Outbox, OutboxWatcher};

/// Which outboxes have something new, as stores tell it and the recorder takes it.
#[derive(Debug, Default)]
pub(super) struct News {
    heard: Mutex<Heard>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Heard {
    outboxes: BTreeSet<Outbox>,
    /// Nobody takes anything any more, and the store may still have it.
    is_over: bool,
}

impl News {
    /// Everything that was heard of since the last call.
    pub(super) fn take(&self) -> BTreeSet<Outbox> {
        std::mem::take(&mut self.heard().outboxes)
    }

    /// Waits until something was heard of that nobody has waited for yet.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// From now on nothing is kept.
    pub(super) fn end(&self) {
        *self.heard() = Heard {
            outboxes: BTreeSet::new(),
            is_over: true,
        };
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock()
    }
}

impl OutboxWatcher for News {
    fn recorded(&self, outbox: &Outbox) {
        let mut heard = self.heard();
        if heard.is_over || heard.outboxes.contains(outbox) {
            return; // whoever added it has told the recorder, and it has not taken it yet
        }
        heard.outboxes.insert(outbox.clone());
        drop(heard);
        self.arrived.notify_one();
    }
}
