//! The known buckets of the queues that callers pull from.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::event::{BucketId, BucketKey, QueueName};

/// The table is looked through when it has twice as many queues as are pulled from, and so many
/// more.
pub(super) const SPARE: usize = 64;

/// The queues that callers pull from, for as long as they do.
#[derive(Debug, Default)]
pub(super) struct PulledQueues(RwLock<BTreeMap<QueueName, KnownQueue>>);

#[derive(Debug, Default)]
struct KnownQueue {
    buckets: BTreeSet<BucketId>,
    /// Whether the store's buckets of it were listed, or cannot be.
    is_listed: bool,
}

impl PulledQueues {
    /// Notes that a queue is pulled from: its wake-ups are passed on.
    pub(super) fn begin(&self, queue: &QueueName) {
        if !self.read().contains_key(queue) {
            self.write().entry(queue.clone()).or_default();
        }
    }

    /// Returns whether its buckets were listed.
    pub(super) fn is_listed(&self, queue: &QueueName) -> bool {
        self.read().get(queue).is_some_and(|known| known.is_listed)
    }

    /// Notes that its buckets were listed.
    pub(super) fn listed(&self, queue: &QueueName) {
        self.write().entry(queue.clone()).or_default().is_listed = true;
    }

    /// Adds those buckets that are of a queue that is pulled from, and returns the new ones.
    pub(super) fn add(&self, buckets: &[BucketKey]) -> Vec<BucketKey> {
        let mut queues = self.write();
        let is_new = |key: &&BucketKey| {
            let queue = queues.get_mut(&key.queue);
            queue.is_some_and(|known| known.buckets.insert(key.bucket))
        };
        buckets.iter().filter(is_new).cloned().collect()
    }

    /// Returns whether a bucket's queue is pulled from, and whether the bucket is known.
    pub(super) fn knows(&self, bucket: &BucketKey) -> (bool, bool) {
        let queues = self.read();
        let queue = queues.get(&bucket.queue);
        let is_known = queue.is_some_and(|known| known.buckets.contains(&bucket.bucket));
        (queue.is_some(), is_known)
    }

    /// Returns the buckets of a queue: at least `many`, and all others that are known.
    pub(super) fn buckets(&self, queue: &QueueName, many: u16) -> Vec<BucketKey> {
        let mut ids: BTreeSet<BucketId> = (0..many).map(BucketId).collect();
        if let Some(known) = self.read().get(queue) {
            ids.extend(&known.buckets);
        }
        let key = |id| BucketKey::new(queue.clone(), id);
        ids.into_iter().map(key).collect()
    }

    /// Forgets queues that are not pulled from any more, of which `pulled` are left.
    pub(super) fn forget_others(&self, pulled: usize, is_pulled: impl Fn(&QueueName) -> bool) {
        if self.read().len() > 2 * pulled + SPARE {
            self.write().retain(|queue, _| is_pulled(queue));
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<QueueName, KnownQueue>> {
        self.0.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<QueueName, KnownQueue>> {
        self.0.write()
    }
}
