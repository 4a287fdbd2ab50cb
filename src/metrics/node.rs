//! Metrics of a node and of its members.

use ::metrics::gauge;

use super::catalogue::{CLOCK_SKEW, LIVE_NODES};

/// Sets by how many microseconds the store's clock is ahead of this machine's.
pub(crate) fn clock_skew(ahead_us: i64) {
    gauge!(CLOCK_SKEW).set(ahead_us as f64 / 1e6);
}

/// Sets the number of live members.
pub(crate) fn live_nodes(nodes: usize) {
    gauge!(LIVE_NODES).set(nodes as f64);
}
