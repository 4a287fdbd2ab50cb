//! Buckets of a store with its index in memory, each behind its own lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::core::op::StoreOp;
#[cfg(feature = "embedded")]
use crate::core::reference::Restored;
use crate::core::reference::{Bucket, DedupWindow, Head};
use crate::event::BucketKey;
use crate::store::Watcher;
use crate::time::Timestamp;

/// The limit of watchers; one more drops the oldest.
const WATCHERS_MAX: usize = 64;

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
    watchers: RwLock<Vec<Arc<dyn Watcher>>>,
    /// The dedup window of a bucket; its cap is that of all buckets together.
    window: DedupWindow,
    /// The number of tombstones in all buckets.
    remembered: AtomicUsize,
    /// Ids created until then may have been forgotten before the start.
    forgotten: Option<Timestamp>,
}

struct Shard<B> {
    bucket: Mutex<Bucket<B>>,
    /// Whether an event was ever in it: a bucket that was only queried is not worth a poll.
    is_used: AtomicBool,
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
}

impl WakeRule {
    /// Classifies `op`.
    pub(crate) fn of(op: &StoreOp) -> Self {
        match op {
            StoreOp::MoveDue { calls: true, .. } => Self::Called,
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
            watchers: RwLock::default(),
            window,
            remembered: AtomicUsize::new(0),
            forgotten: None,
        }
    }

    /// Sets the creation time up to which any bucket may have forgotten tombstones.
    #[cfg(feature = "embedded")]
    pub(crate) fn raise_watermark(&mut self, created: Timestamp) {
        self.forgotten = self.forgotten.max(Some(created));
        let buckets = self.buckets.get_mut();
        for shard in buckets.unwrap_or_else(PoisonError::into_inner).values() {
            let mut bucket = shard.bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.raise_watermark(created);
        }
    }

    /// Applies `change` under the bucket's lock, and notifies the watchers if it brought work
    /// sooner.
    pub(crate) fn change<T>(
        &self,
        key: &BucketKey,
        news: WakeRule,
        change: impl FnOnce(&mut Bucket<B>) -> T,
    ) -> T {
        let shard = self.shard(key);
        let mut bucket = shard.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, remembered): (Head, _) = (bucket.head(), bucket.remembered());
        bucket.set_window(self.window_now());
        let answer = change(&mut bucket);
        self.count(remembered, bucket.remembered());
        let is_earlier = bucket.head().is_earlier_than(before);
        let is_ready = bucket.head().ready;
        if !bucket.is_empty() && !shard.is_used.swap(true, Ordering::Relaxed) {
            // Before the watchers are notified, so that a later read of the number includes this
            // bucket.
            self.used.fetch_add(1, Ordering::Release);
        }
        drop(bucket);
        if is_earlier && news == WakeRule::Tell {
            self.tell(|watcher| watcher.earlier(key));
        }
        if is_ready && news == WakeRule::Called {
            self.tell(|watcher| watcher.called(key));
        }
        answer
    }

    /// Restores an event, as [`Bucket::restore_unindexed`] does.
    #[cfg(feature = "embedded")]
    pub(crate) fn restore(&mut self, key: &BucketKey, restored: Restored<B>) -> bool {
        let shard = self.shard(key);
        let mut bucket = shard.bucket.lock().unwrap_or_else(PoisonError::into_inner);
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
        let buckets = buckets.unwrap_or_else(PoisonError::into_inner);
        let next = Mutex::new(buckets.values());
        let index = || {
            let shard = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some(shard) = shard() {
                let mut bucket = shard.bucket.lock().unwrap_or_else(PoisonError::into_inner);
                bucket.index_restored();
            }
        };
        let others = std::thread::available_parallelism().map_or(0, |all| all.get() - 1);
        std::thread::scope(|scope| {
            for _ in 0..others.min(INDEXERS_MAX).min(buckets.len() / 2) {
                scope.spawn(index);
            }
            index();
        });
    }

    /// Returns the number of buckets that were ever used; it grows with every new one.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// Returns every bucket that holds events or did before, by key.
    ///
    /// Empty buckets are included: a consumer that does not serve one would not be notified of the
    /// next event in it.
    pub(crate) fn keys(&self) -> Vec<BucketKey> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        let used = |shard: &&Arc<Shard<B>>| shard.is_used.load(Ordering::Relaxed);
        let keys = buckets.iter().filter(|(_, shard)| used(shard));
        keys.map(|(key, _)| key.clone()).collect()
    }

    /// Registers `watcher`; the same one only once.
    pub(crate) fn watch(&self, watcher: Arc<dyn Watcher>) {
        let mut watchers = self
            .watchers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if watchers.iter().any(|known| Arc::ptr_eq(known, &watcher)) {
            return;
        }
        if watchers.len() == WATCHERS_MAX {
            watchers.remove(0);
        }
        watchers.push(watcher);
    }

    /// Checks every bucket and returns the first violation.
    pub(crate) fn check(&self) -> Result<(), String> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        for (key, shard) in buckets.iter() {
            let bucket = shard.bucket.lock().unwrap_or_else(PoisonError::into_inner);
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
        let used = usize::try_from(self.used()).unwrap_or(usize::MAX);
        self.window.shared_by(used)
    }

    /// Adds a bucket's change of its number of tombstones to the total.
    fn count(&self, before: usize, after: usize) {
        if after >= before {
            self.remembered.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.remembered.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    fn shard(&self, key: &BucketKey) -> Arc<Shard<B>> {
        let known = {
            let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
            buckets.get(key).map(Arc::clone)
        };
        known.unwrap_or_else(|| {
            let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
            let made = || {
                let mut bucket = Bucket::new(key.clone());
                if let Some(created) = self.forgotten {
                    bucket.raise_watermark(created);
                }
                Arc::new(Shard {
                    bucket: Mutex::new(bucket),
                    is_used: AtomicBool::new(false),
                })
            };
            Arc::clone(buckets.entry(key.clone()).or_insert_with(made))
        })
    }

    /// Notifies the watchers of every bucket: the time was set forward, so what is due was due
    /// later when it was scheduled.
    pub(crate) fn wake_all(&self) {
        for key in self.keys() {
            self.tell(|watcher| watcher.earlier(&key));
        }
    }

    fn tell(&self, what: impl Fn(&dyn Watcher)) {
        let watchers = {
            let watchers = self.watchers.read().unwrap_or_else(PoisonError::into_inner);
            watchers.clone()
        };
        for watcher in watchers {
            what(&*watcher);
        }
    }
}
