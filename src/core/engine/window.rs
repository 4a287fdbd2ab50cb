//! Limits of the dedup window: how long, and how many, tombstones a store keeps.

use std::time::Duration;

/// The default number of tombstones that a bucket keeps beyond [`KEEP_FOR`].
pub(crate) const FINISHED_MAX: usize = 100_000;
/// The default number of tombstones in all buckets of a store together: a minute at 16,000 events a
/// second, in some 130 MB of a Redis server.
pub(crate) const FINISHED_TOTAL: usize = 1_000_000;
/// The least number of tombstones of a bucket, however many buckets share the total.
pub(crate) const FINISHED_FLOOR: usize = 1_000;
/// The least age at which a tombstone is dropped: longer than any retry of a push can take.
pub const KEEP_FOR: Duration = Duration::from_secs(60);
/// The age at which a tombstone is dropped even where there is room, so that an unused bucket costs
/// next to nothing.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(24 * 3_600);
/// How far ahead of the store's time an id may have been generated.
pub const ID_AHEAD_MAX: Duration = Duration::from_secs(60);
/// The most tombstones that one operation drops, so that none takes long.
pub(crate) const FORGET_MAX: usize = 2_000;
/// The most tombstones that one operation keeps though they exceed the cap.
pub(super) const KEPT_MAX: usize = 256;

// An id that is dropped for its age was generated before now, so the watermark closes no bucket to
// ids of now.
const _: () = assert!(KEEP_FOR.as_secs() >= ID_AHEAD_MAX.as_secs());
// No operation ends more than it may drop, so a surplus shrinks.
const _: () = assert!(FORGET_MAX > crate::core::op::BATCH_MAX);

/// How long, and how many, tombstones a bucket keeps, to recognise a late repeat of a push or a
/// settle.
///
/// A tombstone is dropped when it is older than [`keep_for`](Self::keep_for) and there are more
/// than [`max`](Self::max); when it is older than [`max_age`](Self::max_age); and when there are
/// more than [`cap`](Self::cap), however young it is. One whose id has a time that is still to come
/// makes room for others first, up to twice the cap; where one was dropped, new ids up to its time are
/// refused until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedupWindow {
    /// The least age of a dropped tombstone, unless the cap is reached. Default: a minute, longer
    /// than any retry of a push can take.
    pub keep_for: Duration,
    /// The most tombstones older than that. Default: 100,000.
    pub max: usize,
    /// The most tombstones of any age. Default: 1,000,000.
    pub cap: usize,
    /// The greatest age of a tombstone. Default: a day.
    pub max_age: Duration,
}

impl Default for DedupWindow {
    fn default() -> Self {
        Self {
            keep_for: KEEP_FOR,
            max: FINISHED_MAX,
            cap: FINISHED_TOTAL,
            max_age: MAX_AGE,
        }
    }
}

impl DedupWindow {
    /// Returns the window of one of `buckets` buckets that share the cap: none has less than
    /// 1,000, unless the whole cap is less.
    #[must_use]
    pub fn shared_by(self, buckets: usize) -> Self {
        let share = (self.cap / buckets.max(1)).max(self.cap.min(FINISHED_FLOOR));
        Self {
            max: self.max.min(share),
            cap: share,
            ..self
        }
    }
}
