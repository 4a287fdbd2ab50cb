//! The gates of a node's buckets.

use std::sync::OnceLock;

use crate::flow::gate::Gate;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_gate_of_its_own_that_stays_where_it_is() {
        let gates = Gates::default();
        let first: *const Gate = gates.of(0);
        for place in 0..5_000 {
            gates.of(place).fresh(place as u64 + 1);
        }
        for place in 0..5_000 {
            let gate = gates.of(place);
            assert!(gate.is_open(place as u64, 1));
            assert!(!gate.is_open(place as u64 + 1, 1));
        }
        assert!(std::ptr::eq(first, gates.of(0)));
    }
}
