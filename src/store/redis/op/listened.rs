//! The buckets that this process listens to: each until nobody here has polled it for long.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::event::BucketKey;

/// How long after its last poll a bucket is listened to, in microseconds. Longer than anybody sleeps
/// who uses it: a node that leaves it to others polls it after two of the longest sleeps, each of
/// which is at most two fallback polls.
const IDLE_US: u64 = 6 * 600_000_000;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::options::NodeOptions;
    use crate::event::{BucketId, QueueName};
    use crate::store::redis::FALLBACK_POLL_EVERY;

    #[test]
    fn a_bucket_is_listened_to_until_nobody_has_polled_it_for_long() {
        let queue = QueueName::new("orders").expect("a legal name");
        let bucket = BucketKey::new(queue, BucketId(0));
        let listened = Listened::default();
        assert!(listened.is_new(&bucket, 0));
        assert!(!listened.is_new(&bucket, 5));
        assert!(!listened.remove_idle(&bucket, 5 + IDLE_US - 1));
        assert!(!listened.is_new(&bucket, 5 + IDLE_US - 1));
        assert!(!listened.remove_idle(&bucket, 5 + IDLE_US));
        assert!(listened.remove_idle(&bucket, 5 + 2 * IDLE_US));
        assert!(listened.is_new(&bucket, 5 + 2 * IDLE_US));
    }

    /// Else it does not hear what it sleeps for.
    #[test]
    fn nobody_who_uses_a_bucket_sleeps_longer_than_it_is_listened_to() {
        let day = std::time::Duration::from_secs(86_400);
        let options = NodeOptions {
            sleep_max: day,
            ..NodeOptions::default()
        };
        let sleep = options.for_shared_store(FALLBACK_POLL_EVERY).sleep_max;
        assert!(2 * sleep.as_micros() < u128::from(IDLE_US), "{sleep:?}");
    }
}
