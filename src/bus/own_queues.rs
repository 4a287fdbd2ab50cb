//! The queues that the bus keeps for itself.

use crate::event::{AUDIT, QueueName};

/// The number of buckets of each of them, whatever the settings of a process say: each process looks
/// for an event where another one has put it.
pub(super) const OWN_BUCKETS: u16 = 8;
/// What the names of queues of replies end with.
pub(super) const REPLIES: &str = "duly.replies";
/// The queue of schedules.
#[cfg(feature = "schedules")]
pub(super) const SCHEDULES: &str = "duly.schedules";

/// Returns whether a queue is one of the bus's own.
pub(super) fn is_own(queue: &QueueName) -> bool {
    if queue.as_str() == AUDIT {
        return true;
    }
    let namespace = queue.strip_suffix(REPLIES);
    #[cfg(feature = "schedules")]
    if queue.as_str() == SCHEDULES {
        return true;
    }
    namespace.is_some_and(|it| it.is_empty() || it.ends_with('.'))
}
