//! Unknown names of queues that were checked.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::event::QueueName;

/// The most unknown names that are checked. Only a program that generates names has more, and it
/// makes no typing mistakes.
const CHECKED_MAX: usize = 256;

/// The names that were checked when they were pushed to.
#[derive(Debug, Default)]
pub(in crate::bus) struct CheckedNames(Mutex<BTreeSet<QueueName>>);

impl CheckedNames {
    /// Returns whether this name is checked for the first time.
    pub(in crate::bus) fn is_first(&self, queue: &QueueName) -> bool {
        let mut checked = self.0.lock();
        checked.len() < CHECKED_MAX && checked.insert(queue.clone())
    }
}
