//! Until when handlers may start on what was leased.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::op::RequestId;
use crate::time::Mono;

/// The first row of gates has so many, and each row twice as many as the one before.
const FIRST_ROW: usize = 64;
/// As many rows as there are places for: a node runs out of memory long before.
const ROWS: usize = 32;

/// The gates of a node's buckets, by their places.
///
/// Buckets come while workers look, so it grows by whole rows and never moves what is there:
/// workers need no lock.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    rows: [OnceLock<Box<[Gate]>>; ROWS],
}

impl Gates {
    /// The gate of the bucket at a place; one that nobody has opened is shut.
    pub(crate) fn of(&self, place: usize) -> &Gate {
        let number = place + FIRST_ROW;
        let row = (number / FIRST_ROW).ilog2() as usize;
        let len = FIRST_ROW << row;
        let made = || (0..len).map(|_| Gate::default()).collect();
        &self.rows[row].get_or_init(made)[number - len]
    }
}

/// Until when handlers may start on a bucket's leases; written by the mover, read by workers.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    fresh_until: AtomicU64,
    lost_through: AtomicU64,
}

impl Gate {
    /// Handlers may start until then.
    pub(crate) fn fresh(&self, until: Mono) {
        self.fresh_until
            .fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// Nothing may start on leases from fetches up to `through`.
    pub(crate) fn lost(&self, through: RequestId) {
        self.lost_through.fetch_max(through, Ordering::Relaxed);
    }

    /// Whether a handler may start now on the lease of `request`.
    pub(crate) fn is_open(&self, now: Mono, request: RequestId) -> bool {
        now.as_nanos() < self.fresh_until.load(Ordering::Relaxed)
            && request > self.lost_through.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_gate_of_its_own_that_stays_where_it_is() {
        let gates = Gates::default();
        let first: *const Gate = gates.of(0);
        for place in 0..5_000 {
            gates.of(place).lost(place as u64 + 1);
        }
        for place in 0..5_000 {
            let lost = &gates.of(place).lost_through;
            assert_eq!(lost.load(Ordering::Relaxed), place as u64 + 1);
        }
        assert!(std::ptr::eq(first, gates.of(0)));
    }
}
