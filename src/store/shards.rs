//! Buckets of a store with its index in memory, each behind its own lock.

mod sweep;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard, RwLock};

#[cfg(feature = "embedded")]
use crate::core::engine::Restored;
use crate::core::engine::{Bucket, DedupWindow, Head};
use crate::core::op::StoreOp;
use crate::error::Result;
use crate::event::{BucketId, BucketKey, QueueName};
use crate::store::contract::Watcher;
use crate::store::watchers::Watchers;
use crate::store::watermarks::Watermarks;
#[cfg(feature = "embedded")]
use crate::time::Timestamp;

/// The most threads that help to index what was restored.
#[cfg(feature = "embedded")]
const INDEXERS_MAX: usize = 7;

/// A map of buckets, created on first use, with their watchers.
///
/// A bucket is locked for one operation at a time. Watchers are notified after the lock is
/// released.
pub(crate) struct Shards<B> {
    buckets: RwLock<BTreeMap<BucketKey, Arc<Shard<B>>>>,
    /// The number of buckets that were ever used.
    used: AtomicU64,
    /// The number of buckets in the map.
    present: AtomicUsize,
    /// Counts changes, for the sweep.
    changes: AtomicU64,
    /// The bucket up to which the sweep has come.
    swept: Mutex<Option<BucketKey>>,
    watchers: Watchers<dyn Watcher>,
    /// The dedup window of a bucket; its cap is that of all buckets together.
    window: DedupWindow,
    /// The number of tombstones in all buckets.
    remembered: AtomicUsize,
    /// The watermarks of buckets that are not in the map.
    forgotten: Mutex<Watermarks>,
}

struct Shard<B> {
    bucket: Mutex<Bucket<B>>,
    /// Whether an event was ever in it: a bucket whose only push was refused is not worth a poll.
    is_used: AtomicBool,
    /// When it was last used, by the time of its operations.
    used_us: AtomicU64,
    /// Whether it was removed from the map; set under its lock.
    is_gone: AtomicBool,
}

impl<B> Shard<B> {
    fn lock(&self) -> MutexGuard<'_, Bucket<B>> {
        self.bucket.lock()
    }
}

/// Whether a change can bring work that the mover does not know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeRule {
    /// It can: watchers are notified when the bucket's head is earlier after it.
    Tell,
    /// The mover itself made it, and sees the reply.
    Known,
    /// The same, and the mover has no capacity: all others are notified if an event is ready after
    /// it.
    Called,
    /// The sweep made it, which is no use of the bucket.
    Swept,
}

impl WakeRule {
    /// Classifies `op`.
    pub(crate) fn of(op: &StoreOp) -> Self {
        match op {
            StoreOp::MoveDue { calls: true, .. } => Self::Called,
            // A look of a puller, which may take back leases of which it takes one.
            StoreOp::MoveDue { limit: 0, .. } => Self::Tell,
            StoreOp::MoveDue { .. } | StoreOp::Fetch(_) => Self::Known,
            _ => Self::Tell,
        }
    }
}

impl<B> fmt::Debug for Shards<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards")
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

impl<B: Clone> Default for Shards<B> {
    fn default() -> Self {
        Self::new(DedupWindow::default())
    }
}

impl<B: Clone> Shards<B> {
    /// Creates an empty map; each new bucket has this dedup window, and all of them share its cap.
    pub(crate) fn new(window: DedupWindow) -> Self {
        Self {
            buckets: RwLock::default(),
            used: AtomicU64::new(0),
            present: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            swept: Mutex::default(),
            watchers: Watchers::default(),
            window,
            remembered: AtomicUsize::new(0),
            forgotten: Mutex::default(),
        }
    }

    /// Changes every bucket.
    #[cfg(feature = "embedded")]
    pub(crate) fn change_all(&mut self, mut change: impl FnMut(&mut Bucket<B>)) {
        for shard in self.buckets.get_mut().values() {
            change(&mut shard.lock());
        }
    }

    /// Sets the creation time up to which any bucket may have forgotten tombstones.
    #[cfg(feature = "embedded")]
    pub(crate) fn raise_watermark(&self, created: Timestamp) {
        let shards: Vec<_> = {
            let buckets = self.buckets.read();
            // One that is created from now on begins with it.
            self.watermarks().raise_all(created);
            buckets.values().map(Arc::clone).collect()
        };
        for shard in shards {
            shard.lock().raise_watermark(created);
        }
    }

    /// Lowers what was set by that, unless a bucket has the watermark `from` as its own.
    #[cfg(feature = "embedded")]
    pub(crate) fn lower_watermark(
        &self,
        from: Timestamp,
        until: Timestamp,
        is_its_own: impl Fn(&BucketKey) -> bool,
    ) {
        let shards: Vec<_> = {
            let buckets = self.buckets.read();
            self.watermarks().lower_all(until);
            let others = buckets.iter().filter(|(key, _)| !is_its_own(key));
            others.map(|(_, shard)| Arc::clone(shard)).collect()
        };
        for shard in shards {
            let mut bucket = shard.lock();
            if bucket.watermark() == Some(from) {
                bucket.set_watermark(until);
            }
        }
    }

    /// Sets that of one bucket, which is not created for it, to what it was last.
    #[cfg(feature = "embedded")]
    pub(crate) fn set_watermark_of(&mut self, key: &BucketKey, created: Timestamp) {
        match self.known(key) {
            Some(shard) => shard.lock().set_watermark(created),
            None => self.watermarks().add(key.clone(), created),
        }
    }

    /// Applies `change` under the bucket's lock, and notifies the watchers if it brought work
    /// sooner. An unknown bucket is created.
    pub(crate) fn change<T>(
        &self,
        key: &BucketKey,
        news: WakeRule,
        change: impl FnOnce(&mut Bucket<B>) -> T,
    ) -> T {
        loop {
            let shard = self.shard(key);
            let bucket = shard.lock();
            if !shard.is_gone.load(Ordering::Relaxed) {
                return self.change_locked(key, news, &shard, bucket, change);
            }
        }
    }

    /// The same for an operation that adds nothing: it sees an unknown bucket as an empty one, and
    /// leaves nothing behind.
    pub(crate) fn change_known<T>(
        &self,
        key: &BucketKey,
        news: WakeRule,
        change: impl FnOnce(&mut Bucket<B>) -> T,
    ) -> T {
        while let Some(shard) = self.known(key) {
            let bucket = shard.lock();
            if !shard.is_gone.load(Ordering::Relaxed) {
                return self.change_locked(key, news, &shard, bucket, change);
            }
        }
        change(&mut Bucket::new(key.clone()).with_window(self.window))
    }

    fn change_locked<T>(
        &self,
        key: &BucketKey,
        news: WakeRule,
        shard: &Shard<B>,
        mut bucket: MutexGuard<'_, Bucket<B>>,
        change: impl FnOnce(&mut Bucket<B>) -> T,
    ) -> T {
        let (before, remembered): (Head, _) = (bucket.head(), bucket.remembered());
        bucket.set_window(self.window_now());
        let response = change(&mut bucket);
        self.count(remembered, bucket.remembered());
        let is_earlier = bucket.head().is_earlier_than(before);
        let is_ready = bucket.head().ready;
        if !bucket.is_empty() && !shard.is_used.swap(true, Ordering::Relaxed) {
            // Before the watchers are notified, so that a later read of the number includes this
            // bucket.
            self.used.fetch_add(1, Ordering::Release);
        }
        if news != WakeRule::Swept {
            shard.used_us.store(bucket.now_us(), Ordering::Relaxed);
        }
        drop(bucket);
        if is_earlier && news == WakeRule::Tell {
            self.watchers.tell(|watcher| watcher.earlier(key));
        }
        if is_ready && news == WakeRule::Called {
            self.watchers.tell(|watcher| watcher.called(key));
        }
        response
    }

    /// Restores an event, as [`Bucket::restore_unindexed`] does.
    #[cfg(feature = "embedded")]
    pub(crate) fn restore(&mut self, key: &BucketKey, restored: Restored<B>) -> bool {
        let shard = self.shard(key);
        let mut bucket = shard.lock();
        if !shard.is_used.swap(true, Ordering::Relaxed) {
            self.used.fetch_add(1, Ordering::Release);
        }
        bucket.restore_unindexed(restored)
    }

    /// Builds the delay set of each bucket from what was restored, with as many threads as can run.
    #[cfg(feature = "embedded")]
    pub(crate) fn index_restored(&mut self)
    where
        B: Send,
    {
        let buckets = self.buckets.get_mut();
        let next = Mutex::new(buckets.values());
        let index = || {
            let shard = || next.lock().next();
            while let Some(shard) = shard() {
                let mut bucket = shard.bucket.lock();
                bucket.index_restored();
            }
        };
        let others = std::thread::available_parallelism().map_or(0, |all| all.get() - 1);
        std::thread::scope(|scope| {
            for _ in 0..others.min(INDEXERS_MAX).min(buckets.len() / 2) {
                // Without a thread this one does it alone.
                if std::thread::Builder::new()
                    .spawn_scoped(scope, index)
                    .is_err()
                {
                    break;
                }
            }
            index();
        });
    }

    /// Returns the number of buckets that were ever used; it grows with every new one.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// Returns every bucket that holds events, or held some since the start, by key.
    pub(crate) fn keys(&self) -> Vec<BucketKey> {
        let is_used = |shard: &Shard<B>| shard.is_used.load(Ordering::Relaxed);
        self.keys_in(.., is_used)
    }

    /// Returns how many buckets there are.
    pub(crate) fn len(&self) -> usize {
        self.present.load(Ordering::Relaxed)
    }

    /// Returns every bucket of a queue, also one with tombstones alone that a start has restored.
    pub(crate) fn keys_of(&self, queue: &QueueName) -> Vec<BucketKey> {
        let at = |bucket| BucketKey::new(queue.clone(), BucketId(bucket));
        self.keys_in(at(0)..=at(u16::MAX), |_| true)
    }

    fn keys_in(
        &self,
        range: impl RangeBounds<BucketKey>,
        is_wanted: impl Fn(&Shard<B>) -> bool,
    ) -> Vec<BucketKey> {
        let buckets = self.buckets.read();
        let keys = buckets.range(range).filter(|(_, shard)| is_wanted(shard));
        keys.map(|(key, _)| key.clone()).collect()
    }

    fn watermarks(&self) -> MutexGuard<'_, Watermarks> {
        self.forgotten.lock()
    }

    /// Registers `watcher`; the same one only once.
    pub(crate) fn watch(&self, watcher: Weak<dyn Watcher>) -> Result<()> {
        self.watchers.add(watcher)
    }

    /// Checks every bucket and returns the first violation.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        let buckets = self.buckets.read();
        for (key, shard) in buckets.iter() {
            let bucket = shard.bucket.lock();
            bucket.check().map_err(|wrong| format!("{key}: {wrong}"))?;
        }
        Ok(())
    }

    /// Returns the dedup window that applies to a bucket now: its share shrinks only once all
    /// buckets together exceed the cap.
    fn window_now(&self) -> DedupWindow {
        if self.remembered.load(Ordering::Relaxed) < self.window.cap {
            return self.window;
        }
        self.window.shared_by(self.present.load(Ordering::Relaxed))
    }

    /// Adds a bucket's change of its number of tombstones to the total.
    fn count(&self, before: usize, after: usize) {
        if after >= before {
            self.remembered.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.remembered.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    fn known(&self, key: &BucketKey) -> Option<Arc<Shard<B>>> {
        let buckets = self.buckets.read();
        buckets.get(key).map(Arc::clone)
    }

    fn shard(&self, key: &BucketKey) -> Arc<Shard<B>> {
        self.known(key).unwrap_or_else(|| {
            let mut buckets = self.buckets.write();
            let made = || {
                let mut bucket = Bucket::new(key.clone());
                if let Some(created) = self.watermarks().take(key) {
                    bucket.raise_watermark(created);
                }
                self.present.fetch_add(1, Ordering::Relaxed);
                Arc::new(Shard {
                    bucket: Mutex::new(bucket),
                    is_used: AtomicBool::new(false),
                    used_us: AtomicU64::new(0),
                    is_gone: AtomicBool::new(false),
                })
            };
            Arc::clone(buckets.entry(key.clone()).or_insert_with(made))
        })
    }

    /// Notifies the watchers of every bucket: the time was set forward, so what is due was due
    /// later when it was scheduled.
    pub(crate) fn wake_all(&self) {
        for key in self.keys() {
            self.watchers.tell(|watcher| watcher.earlier(&key));
        }
    }
}
