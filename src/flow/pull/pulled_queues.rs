//! The known buckets of the queues that callers pull from.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::RwLock;

use crate::event::{BucketId, BucketKey, QueueName};

/// The table is looked through when it has twice as many queues as are pulled from, and so many
/// more.
pub(super) const SPARE: usize = 64;

/// The queues that callers pull from, for as long as they do.
#[derive(Debug, Default)]
pub(super) struct PulledQueues(RwLock<KnownQueues>);

#[derive(Debug, Default)]
struct KnownQueues {
    of: BTreeMap<QueueName, KnownQueue>,
    /// How many of them have callers.
    called: usize,
}

#[derive(Debug, Default)]
struct KnownQueue {
    buckets: BTreeSet<BucketId>,
    /// Whether the store's buckets of it were listed, or cannot be.
    is_listed: bool,
    /// How many callers it has, from before its buckets are listed on.
    callers: usize,
}

/// A caller of some queues, which are not forgotten while it lasts.
pub(super) struct QueueCaller<'a> {
    table: &'a PulledQueues,
    queues: &'a [(QueueName, u16)],
}

impl PulledQueues {
    /// Notes a caller of queues: their wake-ups are passed on.
    pub(super) fn begin<'a>(&'a self, queues: &'a [(QueueName, u16)]) -> QueueCaller<'a> {
        let known = &mut *self.0.write();
        for (name, _) in queues {
            let queue = known.of.entry(name.clone()).or_default();
            known.called += usize::from(queue.callers == 0);
            queue.callers += 1;
        }
        QueueCaller {
            table: self,
            queues,
        }
    }

    /// Adds the buckets of a queue as they were listed, and returns the new ones.
    pub(super) fn listed(&self, queue: &QueueName, buckets: &[BucketKey]) -> Vec<BucketKey> {
        let known = &mut *self.0.write();
        if let Some(queue) = known.of.get_mut(queue) {
            queue.is_listed = true;
        }
        known.add(buckets)
    }

    /// Adds those buckets that are of a queue that is pulled from, and returns the new ones.
    pub(super) fn add(&self, buckets: &[BucketKey]) -> Vec<BucketKey> {
        self.0.write().add(buckets)
    }

    /// Returns whether a bucket's queue is pulled from, and whether the bucket is known.
    pub(super) fn knows(&self, bucket: &BucketKey) -> (bool, bool) {
        let known = self.0.read();
        let queue = known.of.get(&bucket.queue);
        let is_known = queue.is_some_and(|queue| queue.buckets.contains(&bucket.bucket));
        (queue.is_some(), is_known)
    }

    /// Returns the buckets of a queue: at least `many`, and all others that are known.
    pub(super) fn buckets(&self, queue: &QueueName, many: u16) -> Vec<BucketKey> {
        let mut ids: BTreeSet<BucketId> = (0..many).map(BucketId).collect();
        if let Some(known) = self.0.read().of.get(queue) {
            ids.extend(&known.buckets);
        }
        let key = |id| BucketKey::new(queue.clone(), id);
        ids.into_iter().map(key).collect()
    }

    /// Forgets queues that are not pulled from any more, of which `pulled` are left.
    pub(super) fn forget_others(&self, pulled: usize, is_pulled: impl Fn(&QueueName) -> bool) {
        let has_others = |known: &KnownQueues| {
            let used = pulled + known.called;
            known.of.len() > 2 * used + SPARE
        };
        if has_others(&self.0.read()) {
            let is_used = |name: &_, queue: &mut KnownQueue| queue.callers > 0 || is_pulled(name);
            self.0.write().of.retain(is_used);
        }
    }
}

impl KnownQueues {
    fn add(&mut self, buckets: &[BucketKey]) -> Vec<BucketKey> {
        let is_new = |key: &&BucketKey| {
            let queue = self.of.get_mut(&key.queue);
            queue.is_some_and(|known| known.buckets.insert(key.bucket))
        };
        buckets.iter().filter(is_new).cloned().collect()
    }
}

impl QueueCaller<'_> {
    /// Returns its queues whose buckets were not listed.
    pub(super) fn unlisted(&self) -> Vec<QueueName> {
        let known = self.table.0.read();
        let names = self.queues.iter().map(|(name, _)| name);
        let is_listed = |name: &_| known.of.get(name).is_some_and(|queue| queue.is_listed);
        names.filter(|name| !is_listed(*name)).cloned().collect()
    }
}

impl Drop for QueueCaller<'_> {
    fn drop(&mut self) {
        let known = &mut *self.table.0.write();
        for (name, _) in self.queues {
            if let Some(queue) = known.of.get_mut(name) {
                queue.callers -= 1;
                known.called -= usize::from(queue.callers == 0);
            }
        }
    }
}
