//! A cache of the runtime settings of queues, as this process last read them.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::event::QueueName;
use crate::store::Control;

/// The runtime settings of every queue.
#[derive(Debug, Default)]
pub(crate) struct RuntimeSettings {
    set: RwLock<BTreeMap<QueueName, Control>>,
    /// Notified at each change; one task waits for it.
    changed: Notify,
}

impl RuntimeSettings {
    /// Returns the settings of a queue.
    pub(crate) fn of(&self, queue: &QueueName) -> Control {
        let set = self.set.read();
        set.get(queue).copied().unwrap_or_default()
    }

    /// Replaces all settings.
    pub(crate) fn replace(&self, read: BTreeMap<QueueName, Control>) {
        *self.set.write() = read;
        self.changed.notify_one();
    }

    /// Waits until the settings were replaced, since the last call or now.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
