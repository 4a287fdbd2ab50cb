//! The buckets that this process listens to: each until nobody here has polled it for long.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::event::BucketKey;

/// How long after its last poll a bucket is listened to, in microseconds: some fallback polls, as
/// nobody would poll a bucket that is in use before then.
const IDLE_US: u64 = 1_800_000_000;

/// When each bucket was polled last, by the clock of this process, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Listened(RwLock<HashMap<BucketKey, AtomicU64>>);

impl Listened {
    /// Notes a poll. Returns whether the bucket was not listened to.
    pub(super) fn is_new(&self, bucket: &BucketKey, now_us: u64) -> bool {
        // Under the lock, so that it is not found idle meanwhile.
        if let Some(polled_us) = self.0.read().get(bucket) {
            polled_us.fetch_max(now_us, Ordering::Relaxed);
            return false;
        }
        let polled_us = AtomicU64::new(now_us);
        self.0.write().insert(bucket.clone(), polled_us).is_none()
    }

    /// Removes a bucket that nobody has polled for long. Returns whether it is not listened to.
    pub(super) fn remove_idle(&self, bucket: &BucketKey, now_us: u64) -> bool {
        let is_idle = |polled_us: &AtomicU64| {
            now_us.saturating_sub(polled_us.load(Ordering::Relaxed)) >= IDLE_US
        };
        if !self.0.read().get(bucket).is_none_or(is_idle) {
            return false;
        }
        let mut listened = self.0.write();
        let removes = listened.get(bucket).is_none_or(is_idle);
        if removes {
            listened.remove(bucket);
        }
        removes
    }

    pub(super) fn len(&self) -> usize {
        self.0.read().len()
    }
}
