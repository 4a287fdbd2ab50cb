//! What a node tells of itself and of the others.

use ::metrics::gauge;

use super::catalogue::{CLOCK_SKEW, LIVE_NODES};

/// The store's clock is ahead of this machine's by so many microseconds.
pub(crate) fn clock_skew(ahead_us: i64) {
    gauge!(CLOCK_SKEW).set(ahead_us as f64 / 1e6);
}

/// So many nodes are alive.
pub(crate) fn live_nodes(nodes: usize) {
    gauge!(LIVE_NODES).set(nodes as f64);
}
