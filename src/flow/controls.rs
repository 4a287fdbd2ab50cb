//! What is set of queues while they run, as this process last read it.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use crate::event::QueueName;
use crate::store::Control;

/// The controls of every queue, for whoever pushes or consumes here.
#[derive(Debug, Default)]
pub(crate) struct Controls(RwLock<BTreeMap<QueueName, Control>>);

impl Controls {
    /// What is set of a queue.
    pub(crate) fn of(&self, queue: &QueueName) -> Control {
        let set = self.0.read().unwrap_or_else(PoisonError::into_inner);
        set.get(queue).copied().unwrap_or_default()
    }

    /// Takes in what was read.
    pub(crate) fn replace(&self, read: BTreeMap<QueueName, Control>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = read;
    }
}
