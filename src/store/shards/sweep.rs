//! The sweep of buckets that are not used any more.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use crate::event::BucketKey;
use crate::store::shards::Shards;

/// How many changes there are from one step of the sweep to the next.
const SWEEP_EVERY: u64 = 32;
/// How many buckets one step of it looks at.
const SWEPT_AT_ONCE: usize = 32;
/// After how many tombstones of unused ones it returns no more: each forgets some of them then. Fewer
/// would be less than a program makes that always uses new names.
const FORGOTTEN_AT_ONCE: usize = 4_000;
/// An idle bucket stays for so long after its last use, in microseconds: longer than a late repeat
/// of a fetch can take, and than the pause between two polls of its consumers.
const UNUSED_US: u64 = 60_000_000;

impl<B: Clone> Shards<B> {
    /// Now and then removes buckets that are idle: without events, tombstones and unique keys, and
    /// unused for a while. Returns unused ones that may become so: their store looks at them, by an
    /// operation that forgets what is old.
    pub(crate) fn sweep(&self, now_us: u64) -> Vec<BucketKey> {
        let changes = self.changes.fetch_add(1, Ordering::Relaxed);
        match changes % SWEEP_EVERY {
            0 => self.sweep_some(now_us),
            _ => Vec::new(),
        }
    }

    #[cold]
    fn sweep_some(&self, now_us: u64) -> Vec<BucketKey> {
        let mut swept = self.swept.lock();
        let unused_until = now_us.saturating_sub(UNUSED_US);
        let (mut unused, mut idle, mut forgotten) = (Vec::new(), Vec::new(), 0);
        {
            let from = swept.take().map_or(Bound::Unbounded, Bound::Excluded);
            let buckets = self.buckets.read();
            for (key, shard) in buckets.range((from, Bound::Unbounded)).take(SWEPT_AT_ONCE) {
                if forgotten >= FORGOTTEN_AT_ONCE {
                    break;
                }
                *swept = Some(key.clone());
                let Some(bucket) = shard.bucket.try_lock() else {
                    continue;
                };
                let is_unused = shard.used_us.load(Ordering::Relaxed) <= unused_until;
                match is_unused && bucket.is_idle(now_us) {
                    true => idle.push(key.clone()),
                    false if is_unused || bucket.is_old(now_us) => {
                        forgotten += bucket.remembered();
                        unused.push(key.clone());
                    }
                    false => {}
                }
            }
        }
        if !idle.is_empty() {
            self.remove(&idle, now_us);
        }
        unused
    }

    /// Removes buckets that are still idle and unused.
    fn remove(&self, keys: &[BucketKey], now_us: u64) {
        let unused_until = now_us.saturating_sub(UNUSED_US);
        let mut buckets = self.buckets.write();
        for key in keys {
            let Some(shard) = buckets.get(key).cloned() else {
                continue;
            };
            let Some(bucket) = shard.bucket.try_lock() else {
                continue;
            };
            if !bucket.is_idle(now_us) || shard.used_us.load(Ordering::Relaxed) > unused_until {
                continue;
            }
            shard.is_gone.store(true, Ordering::Relaxed);
            if let Some(until) = bucket.watermark() {
                self.watermarks().add(key.clone(), until);
            }
            buckets.remove(key);
            self.present.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::engine::DedupWindow;
    use crate::event::{BucketId, QueueName};
    use crate::store::shards::WakeRule;
    use crate::time::Timestamp;

    #[test]
    fn a_bucket_that_has_forgotten_ids_to_come_stays_until_their_time() {
        let shards = Shards::<u64>::new(DedupWindow::default());
        let queue = QueueName::new("orders").expect("a legal name");
        let key = BucketKey::new(queue, BucketId(0));
        let now = Timestamp::from_millis(1_700_000_000_000);
        let ahead = now + std::time::Duration::from_secs(50);
        shards.change(&key, WakeRule::Known, |bucket| {
            bucket.raise_watermark_ahead(ahead);
        });
        let sweep_at = |at: Timestamp| {
            for _ in 0..2 * SWEEP_EVERY {
                shards.sweep(at.as_micros());
            }
            shards.known(&key).is_some()
        };
        assert!(sweep_at(now), "what it has forgotten is known nowhere else");
        assert!(!sweep_at(ahead), "it is of no use any more");
    }
}
