//! The tombstones of a bucket, and how long it keeps them.

use crate::core::engine::bucket::Bucket;
use crate::core::engine::window::DedupWindow;
use crate::core::op::ChangeSink;

impl<B: Clone> Bucket<B> {
    /// Returns the same bucket with another dedup window.
    #[must_use]
    pub fn with_window(mut self, window: DedupWindow) -> Self {
        self.dedup.set_window(window);
        self
    }

    /// Changes the dedup window; the operations that follow drop the surplus.
    pub fn set_window(&mut self, window: DedupWindow) {
        self.dedup.set_window(window);
    }

    /// Returns the number of tombstones.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.dedup.len()
    }

    /// Returns whether nothing of it is worth keeping: no events, tombstones or unique keys, and no
    /// watermark of ids whose time is still to come.
    #[must_use]
    pub(crate) fn is_idle(&self, now_us: u64) -> bool {
        self.entries.is_empty()
            && self.dedup.len() == 0
            && self.uniques.is_empty()
            && !self.dedup.has_ahead(now_us)
    }

    /// Returns whether a tombstone is older than any is kept.
    #[must_use]
    pub(crate) fn is_old(&self, now_us: u64) -> bool {
        self.dedup.is_old(now_us)
    }

    /// Drops tombstones beyond the window, as `DedupState::forget_surplus` does.
    pub(super) fn forget_surplus<L: ChangeSink<Body = B>>(&mut self, sink: &mut L) {
        self.dedup.forget_surplus(self.now_us);
        self.note_kept(sink);
    }

    /// A tombstone that was put behind the others is written anew, as those are dropped in order.
    pub(super) fn note_kept<L: ChangeSink<Body = B>>(&mut self, sink: &mut L) {
        for tombstone in self.dedup.take_kept() {
            sink.ended(&self.key, tombstone);
        }
    }
}
