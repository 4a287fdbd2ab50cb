//! A counter of waiters, so that a notification is sent only when a task waits.
//!
//! A waiter counts itself and then tries once more; a task that makes room reads the count
//! afterwards. Each has a fence between its two steps, so at least one sees the other: no waiter
//! misses room. Checked in every interleaving by `tests/loom`.

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, fence};

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// The number of waiters.
#[derive(Debug, Default)]
pub(crate) struct Waiters(AtomicUsize);

/// A waiter, counted until it is dropped.
pub(crate) struct Waiter<'a>(&'a Waiters);

impl Waiters {
    /// Counts one more waiter.
    pub(crate) fn join(&self) -> Waiter<'_> {
        self.0.fetch_add(1, SeqCst);
        Waiter(self)
    }

    /// Returns whether there are waiters. Call it after making room.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        fence(SeqCst);
        self.0.load(Relaxed) > 0
    }
}

impl Waiter<'_> {
    /// Must be called before each try, once this waiter is registered for notifications.
    pub(crate) fn before_trying(&self) {
        fence(SeqCst);
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
    }
}
