//! The queues that replies to calls are stored in.

use crate::event::QueueName;

/// The number of buckets of each queue of replies, whatever the settings of a process say: a caller
/// looks for the reply where the replier of another process has put it.
pub(super) const REPLY_BUCKETS: u16 = 8;
/// What the names of queues of replies end with.
pub(super) const REPLIES: &str = "duly.replies";
/// Returns whether a queue is one of replies.
pub(super) fn holds_replies(queue: &QueueName) -> bool {
    let namespace = queue.strip_suffix(REPLIES);
    namespace.is_some_and(|it| it.is_empty() || it.ends_with('.'))
}
