//! A cache of the runtime settings of queues, as this process last read them.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use crate::event::QueueName;
use crate::store::Control;

/// The runtime settings of every queue.
#[derive(Debug, Default)]
pub(crate) struct RuntimeSettings(RwLock<BTreeMap<QueueName, Control>>);

impl RuntimeSettings {
    /// Returns the settings of a queue.
    pub(crate) fn of(&self, queue: &QueueName) -> Control {
        let set = self.0.read().unwrap_or_else(PoisonError::into_inner);
        set.get(queue).copied().unwrap_or_default()
    }

    /// Replaces all settings.
    pub(crate) fn replace(&self, read: BTreeMap<QueueName, Control>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = read;
    }
}
