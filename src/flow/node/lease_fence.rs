//! A lease fence: until when handlers may start on what was leased from one bucket.
//!
//! The mover writes, workers read without a lock. Lost leases are written before a new freshness
//! and read after it: a worker that sees a new freshness also sees the leases that it does not
//! cover. Checked in every interleaving by `tests/loom`.

#[cfg(loom)]
use loom::sync::atomic::AtomicU64;
#[cfg(not(loom))]
use std::sync::atomic::AtomicU64;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A fence, closed at first.
#[derive(Debug, Default)]
pub(crate) struct LeaseFence {
    /// In nanoseconds of the process's monotonic time.
    fresh_until: AtomicU64,
    /// The number of a fetch.
    lost_through: AtomicU64,
}

impl LeaseFence {
    /// Lets handlers start until `until_ns`.
    pub(crate) fn fresh(&self, until_ns: u64) {
        self.fresh_until.fetch_max(until_ns, Release);
    }

    /// Forbids starts on leases from fetches up to `through`, however fresh later ones become.
    pub(crate) fn lost(&self, through: u64) {
        self.lost_through.fetch_max(through, Relaxed);
    }

    /// Returns whether a handler may start now on the lease of fetch `request`.
    pub(crate) fn is_open(&self, now_ns: u64, request: u64) -> bool {
        now_ns < self.fresh_until.load(Acquire) && request > self.lost_through.load(Relaxed)
    }
}
