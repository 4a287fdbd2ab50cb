//! The set of buckets that received events, kept for the depth sampler.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::event::BucketKey;

/// The buckets that received events since the last sample.
#[derive(Debug, Default)]
pub(crate) struct ActiveBuckets(Mutex<HashSet<BucketKey>>);

impl ActiveBuckets {
    /// Takes the buckets, and begins anew.
    pub(crate) fn take(&self) -> HashSet<BucketKey> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Adds a bucket.
    pub(crate) fn note(&self, bucket: &BucketKey) {
        let mut buckets = self.0.lock();
        if !buckets.contains(bucket) {
            buckets.insert(bucket.clone());
        }
    }
}
