//! The lease fences of a node's buckets.

use std::sync::OnceLock;

use crate::flow::node::lease_fence::LeaseFence;

/// The size of the first row; each row is twice as long as the one before.
const FIRST_ROW: usize = 64;
/// Enough rows for any node: memory runs out long before.
const ROWS: usize = 32;

/// The lease fences by bucket index.
///
/// Buckets are added while workers read, so it grows by whole rows and never moves an entry:
/// workers need no lock.
#[derive(Debug, Default)]
pub(crate) struct LeaseFences {
    rows: [OnceLock<Box<[LeaseFence]>>; ROWS],
}

impl LeaseFences {
    /// Returns the fence of the bucket at `place`; closed if it was never opened.
    pub(crate) fn of(&self, place: usize) -> &LeaseFence {
        let number = place + FIRST_ROW;
        let row = (number / FIRST_ROW).ilog2() as usize;
        let len = FIRST_ROW << row;
        let made = || (0..len).map(|_| LeaseFence::default()).collect();
        &self.rows[row].get_or_init(made)[number - len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_gate_of_its_own_that_stays_where_it_is() {
        let fences = LeaseFences::default();
        let first: *const LeaseFence = fences.of(0);
        for place in 0..5_000 {
            fences.of(place).fresh(place as u64 + 1);
        }
        for place in 0..5_000 {
            let fence = fences.of(place);
            assert!(fence.is_open(place as u64, 1));
            assert!(!fence.is_open(place as u64 + 1, 1));
        }
        assert!(std::ptr::eq(first, fences.of(0)));
    }
}
