//! The watermarks of buckets that were removed as idle.

use std::collections::BTreeMap;

use crate::event::BucketKey;
use crate::time::Timestamp;

/// The most buckets whose watermark is kept for each alone.
const ALONE_MAX: usize = 256;

/// Up to which creation time a bucket may have forgotten tombstones, of buckets that are not in
/// memory: a new one begins with it, so that a late repeat of a push is refused as before.
#[derive(Debug, Default)]
pub(crate) struct Watermarks {
    /// Of every bucket.
    all: Option<Timestamp>,
    /// Of one bucket, where that is later; or earlier, as a clock was ahead and is right again.
    alone: BTreeMap<BucketKey, Timestamp>,
}

impl Watermarks {
    /// Raises the watermark of every bucket.
    pub(crate) fn raise_all(&mut self, until: Timestamp) {
        self.all = self.all.max(Some(until));
        self.alone.retain(|_, alone| *alone > until);
    }

    /// Lowers the watermark of every bucket, which was from a clock that was ahead.
    #[cfg(feature = "embedded")]
    pub(crate) fn lower_all(&mut self, until: Timestamp) {
        self.all = self.all.min(Some(until)); // that of none stays
    }

    /// Notes the watermark of a bucket that is removed. Where there are too many, the earlier half
    /// becomes that of every bucket: an old id is rather refused than accepted twice.
    pub(crate) fn add(&mut self, key: BucketKey, until: Timestamp) {
        if self.all == Some(until) {
            self.alone.remove(&key);
            return;
        }
        self.alone.insert(key, until);
        if self.alone.len() > ALONE_MAX {
            let mut sorted: Vec<Timestamp> = self.alone.values().copied().collect();
            let (_, median, _) = sorted.select_nth_unstable(ALONE_MAX / 2);
            let median = *median;
            self.raise_all(median);
        }
    }

    /// Removes and returns the watermark of a bucket that is created.
    pub(crate) fn take(&mut self, key: &BucketKey) -> Option<Timestamp> {
        self.alone.remove(key).or(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BucketId, QueueName};

    #[test]
    fn no_watermark_is_ever_lowered_however_many_there_are() {
        let key = |number: u64| {
            let queue = QueueName::new(&format!("queue-{number}")).expect("a legal name");
            BucketKey::new(queue, BucketId(0))
        };
        let mut watermarks = Watermarks::default();
        assert_eq!(watermarks.take(&key(1)), None);
        let until = |number: u64| Timestamp::from_millis(1 + number * 7_919 % 100_003);
        for number in 0..3 * ALONE_MAX as u64 {
            watermarks.add(key(number), until(number));
            assert!(watermarks.alone.len() <= ALONE_MAX);
        }
        for number in 0..3 * ALONE_MAX as u64 {
            let taken = watermarks.take(&key(number));
            assert!(taken >= Some(until(number)), "{number}: {taken:?}");
        }
    }

    #[test]
    fn one_that_was_lowered_stays_so_where_that_of_all_is_later() {
        let queue = QueueName::new("orders").expect("a legal name");
        let key = BucketKey::new(queue, BucketId(0));
        let (ahead, right) = (Timestamp::from_millis(90_000), Timestamp::from_millis(7));
        let mut watermarks = Watermarks::default();
        watermarks.raise_all(ahead);
        watermarks.add(key.clone(), right);
        assert_eq!(watermarks.take(&key), Some(right));
        // The one that was said last counts.
        watermarks.add(key.clone(), right);
        watermarks.add(key.clone(), ahead);
        assert_eq!(watermarks.take(&key), Some(ahead));
        watermarks.add(key.clone(), right);
        watermarks.raise_all(ahead);
        assert_eq!(watermarks.take(&key), Some(ahead));
    }
}
