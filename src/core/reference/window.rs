//! The dedup window: for how long, and how many, ended ids a store remembers.

use std::time::Duration;

use crate::core::reference::Bucket;

/// How many ended ids a bucket remembers beyond [`KEEP_FOR`] unless told otherwise.
pub(crate) const FINISHED_MAX: usize = 100_000;
/// How many ended ids all buckets of a store remember together: a minute at 16,000 events a second,
/// in some 130 MB of a Redis server.
pub(crate) const FINISHED_TOTAL: usize = 1_000_000;
/// The least that a bucket may remember, however many buckets share the total.
pub(crate) const FINISHED_FLOOR: usize = 1_000;
/// For how long an ended id is remembered at least: longer than any retry of a push can take.
pub const KEEP_FOR: Duration = Duration::from_secs(60);
/// After how long an ended id is forgotten even where there is room, so that a bucket that is no
/// longer used costs next to nothing.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(24 * 3_600);
/// How far ahead of the store's time an id may have been made.
pub const ID_AHEAD_MAX: Duration = Duration::from_secs(60);
/// How many ids one operation forgets at most, so that none takes long.
pub(crate) const FORGET_MAX: usize = 2_000;

// An id that is forgotten for its age was made before now, so the watermark closes no bucket to
// ids of now.
const _: () = assert!(KEEP_FOR.as_secs() >= ID_AHEAD_MAX.as_secs());
// No operation ends more than it may forget, so that a surplus shrinks.
const _: () = assert!(FORGET_MAX > crate::core::op::BATCH_MAX);

/// For how long, and how many, ended ids a bucket remembers, so that a late repeat of a push or a
/// settle is recognized.
///
/// An id is forgotten when it ended more than [`keep_for`](Self::keep_for) ago and more than
/// [`max`](Self::max) are remembered; when it ended more than [`max_age`](Self::max_age) ago; and
/// when more than [`cap`](Self::cap) are remembered, however young it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedupWindow {
    /// For how long an ended id is remembered at least, unless the cap is reached. Default: a
    /// minute, longer than any retry of a push can take.
    pub keep_for: Duration,
    /// How many are remembered beyond that time. Default: 100,000.
    pub max: usize,
    /// How many are remembered at most. Default: 1,000,000.
    pub cap: usize,
    /// For how long an ended id is remembered at most. Default: a day.
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
    /// The window of one of so many buckets that share its cap: none has less than
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

impl<B: Clone> Bucket<B> {
    /// The same bucket with another dedup window.
    #[must_use]
    pub fn with_window(mut self, window: DedupWindow) -> Self {
        self.past.set_window(window);
        self
    }

    /// Gives it another dedup window: what is too much is forgotten by the operations that follow.
    pub fn set_window(&mut self, window: DedupWindow) {
        self.past.set_window(window);
    }

    /// How many finished ids it remembers.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.past.len()
    }
}
