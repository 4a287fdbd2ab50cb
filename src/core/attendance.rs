//! Which node answers for which bucket, as one node sees it.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::event::{BucketKey, QueueName};
use crate::record::NodeId;

/// What a node has drawn for a bucket; the highest number wins.
pub(super) fn number(key: &BucketKey, node: NodeId) -> (u64, NodeId) {
    let bucket = xxh3_64_with_seed(key.queue.as_bytes(), u64::from(key.bucket.0));
    (xxh3_64_with_seed(&bucket.to_le_bytes(), node.0), node)
}

/// Who takes part, as one node sees it, and so which buckets that node answers for: what it tells
/// of them can be added to what the others tell.
#[derive(Clone, Debug)]
pub(crate) struct Attendance {
    me: NodeId,
    members: Vec<(NodeId, Arc<[QueueName]>)>,
}

impl Attendance {
    /// A node that shares its store with nobody.
    pub(crate) fn alone(me: NodeId, queues: Arc<[QueueName]>) -> Self {
        let members = vec![(me, queues)];
        Self { me, members }
    }

    /// A node among `others`; one that consumes nothing has nothing to answer for.
    pub(super) fn among(
        me: NodeId,
        queues: Arc<[QueueName]>,
        others: impl Iterator<Item = (NodeId, Arc<[QueueName]>)>,
    ) -> Self {
        let mut attendance = Self::alone(me, queues);
        attendance.members.retain(|(_, queues)| !queues.is_empty());
        attendance.members.extend(others);
        attendance
    }

    /// The same, if this node is the one that answers for what nobody else does.
    pub(crate) fn standing_in(mut self) -> Self {
        if self.members.is_empty() {
            self.members.push((self.me, Arc::default()));
        }
        self
    }

    /// How many nodes consume something.
    pub(crate) fn consumers(&self) -> usize {
        let consumes = |(_, queues): &&(NodeId, Arc<[QueueName]>)| !queues.is_empty();
        self.members.iter().filter(consumes).count()
    }

    /// Whether somebody consumes a queue.
    pub(crate) fn is_consumed(&self, queue: &QueueName) -> bool {
        self.members
            .iter()
            .any(|(_, queues)| queues.contains(queue))
    }

    /// Whether this node answers for a bucket: of those that consume its queue the one that looks
    /// first at it does, and of all where nobody consumes it, so that it is not forgotten.
    pub(crate) fn answers_for(&self, key: &BucketKey) -> bool {
        let is_consumed = self.is_consumed(&key.queue);
        let members = self.members.iter();
        let asked = members.filter(|(_, queues)| !is_consumed || queues.contains(&key.queue));
        let first = asked.map(|(node, _)| number(key, *node)).max();
        first.is_some_and(|(_, node)| node == self.me)
    }
}
