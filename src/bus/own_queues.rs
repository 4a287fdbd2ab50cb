//! The queues that the bus keeps for itself: those of each namespace, which is what the names of
//! queues and schedules have before their first dot.

use crate::event::{QueueName, is_audit};

/// The number of buckets of each of them, whatever the settings of a process say: each process looks
/// for an event where another one has put it.
pub(super) const OWN_BUCKETS: u16 = 8;
/// What the names of queues of replies end with.
pub(super) const REPLIES: &str = "duly.replies";
/// What the names of queues of schedules end with.
#[cfg(feature = "schedules")]
pub(super) const SCHEDULES: &str = "duly.schedules";

/// Returns the name of an own queue of the namespace that a name is in.
pub(super) fn beside(name: &str, own: &str) -> String {
    match name.split_once('.') {
        Some((namespace, _)) if !namespace.is_empty() => format!("{namespace}.{own}"),
        _ => own.to_owned(),
    }
}

/// Returns whether a queue is one of the bus's own.
pub(super) fn is_own(queue: &QueueName) -> bool {
    if is_audit(queue) {
        return true;
    }
    #[cfg(feature = "schedules")]
    if has_schedules(queue) {
        return true;
    }
    ends_with(queue, REPLIES)
}

/// Returns whether a queue is one of schedules.
#[cfg(feature = "schedules")]
pub(super) fn has_schedules(queue: &QueueName) -> bool {
    ends_with(queue, SCHEDULES)
}

fn ends_with(queue: &QueueName, own: &str) -> bool {
    let namespace = queue.strip_suffix(own);
    namespace.is_some_and(|it| it.is_empty() || it.ends_with('.'))
}
