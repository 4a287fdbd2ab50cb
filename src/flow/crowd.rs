//! How many wait for room, so that nobody is called when nobody waits.
//!
//! Who waits counts itself, and then tries once more; who makes room looks at the count after that.
//! Each has a fence between its two steps, so at least one of the two sees the other: no room is
//! made that a waiter misses. Checked in every interleaving by `tests/loom`.

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, fence};

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// The number of those who wait.
#[derive(Debug, Default)]
pub(crate) struct Crowd(AtomicUsize);

/// One who waits, counted until this is dropped.
pub(crate) struct Waiting<'a>(&'a Crowd);

impl Crowd {
    /// Counts one more.
    pub(crate) fn join(&self) -> Waiting<'_> {
        self.0.fetch_add(1, SeqCst);
        Waiting(self)
    }

    /// Whether somebody waits; to be asked after room was made.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        fence(SeqCst);
        self.0.load(Relaxed) > 0
    }
}

impl Waiting<'_> {
    /// To be called before each try, once it is certain that a call from now on is heard.
    pub(crate) fn before_trying(&self) {
        fence(SeqCst);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
    }
}
