//! Metrics of a node and of its members.

use super::catalogue::{CLOCK_SKEW, LIVE_NODES};
use super::gauge_share::{Combine, GaugeShare};

/// The gauges of a node.
pub(crate) struct NodeGauges {
    clock_skew: GaugeShare,
    live_nodes: GaugeShare,
}

impl NodeGauges {
    pub(crate) fn new() -> Self {
        Self {
            clock_skew: GaugeShare::new(CLOCK_SKEW, None, Combine::Furthest),
            live_nodes: GaugeShare::new(LIVE_NODES, None, Combine::Max),
        }
    }

    /// Sets by how many microseconds the store's clock is ahead of this machine's.
    pub(crate) fn clock_skew(&self, ahead_us: i64) {
        self.clock_skew.set(ahead_us as f64 / 1e6);
    }

    /// Sets the number of live members.
    pub(crate) fn live_nodes(&self, nodes: usize) {
        self.live_nodes.set(nodes as f64);
    }
}
