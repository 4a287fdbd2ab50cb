//! Which part of what is written by many threads a thread writes to.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts of whatever is split so that threads do not write to the same place.
pub(crate) const SHARDS: usize = 8;

/// The part of the calling thread: threads take turns when they first ask.
pub(crate) fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    MINE.with(|mine| *mine)
}
