//! Until when handlers may start on what was leased from one bucket.
//!
//! The mover writes, workers read without a lock. What is lost is written before what is fresh, and
//! read after it: a worker that sees a lease's new trust also sees which leases it is not about.
//! Checked in every interleaving by `tests/loom`.

#[cfg(loom)]
use loom::sync::atomic::AtomicU64;
#[cfg(not(loom))]
use std::sync::atomic::AtomicU64;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A gate; it is shut until somebody opens it.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// In nanoseconds of the process's own time.
    fresh_until: AtomicU64,
    /// The number of a fetch.
    lost_through: AtomicU64,
}

impl Gate {
    /// Handlers may start until then.
    pub(crate) fn fresh(&self, until_ns: u64) {
        self.fresh_until.fetch_max(until_ns, Release);
    }

    /// Nothing may start on leases from fetches up to `through`, however fresh others become later.
    pub(crate) fn lost(&self, through: u64) {
        self.lost_through.fetch_max(through, Relaxed);
    }

    /// Whether a handler may start now on the lease of fetch `request`.
    pub(crate) fn is_open(&self, now_ns: u64, request: u64) -> bool {
        now_ns < self.fresh_until.load(Acquire) && request > self.lost_through.load(Relaxed)
    }
}
