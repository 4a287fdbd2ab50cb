//! The metrics of webhooks.

use std::time::Duration;

use metrics::{Label, counter, gauge, histogram};

use super::failure::Failure;
use super::target::TargetKey;
use crate::metrics::{Labels, WEBHOOK_SECONDS, labeled};

/// Requests by outcome. Labels: `pool`, `namespace`, `queue`, `outcome`.
const DELIVERIES: &str = "duly_webhook_deliveries_total";
/// Circuits of this server that are open or probe. Labels: `pool`, `namespace`, `queue`.
const CIRCUITS_OPEN: &str = "duly_webhook_circuits_open";

/// The labels of a target.
#[derive(Clone, Debug)]
pub(super) struct TargetLabels(Vec<Label>);

impl TargetLabels {
    pub(super) fn new(key: &TargetKey) -> Self {
        Self(labeled(&Labels::new(&key.pool, &key.namespace), &key.queue))
    }

    /// Counts a request.
    pub(super) fn sent(&self, result: Result<(), &Failure>, took: Duration) {
        let outcome = result.map_or_else(|failure| failure.kind.label(), |()| "delivered");
        self.count(outcome);
        histogram!(WEBHOOK_SECONDS, self.0.iter()).record(took.as_secs_f64());
    }

    /// Counts an event that was handed back without a request, or whose request was cut off.
    pub(super) fn returned(&self) {
        self.count("returned");
    }

    fn count(&self, outcome: &'static str) {
        let mut labels = self.0.clone();
        labels.push(Label::new("outcome", outcome));
        counter!(DELIVERIES, labels).increment(1);
    }

    /// Counts an open circuit, as long as the returned value lives.
    pub(super) fn open_circuit(&self) -> OpenCircuit {
        gauge!(CIRCUITS_OPEN, self.0.iter()).increment(1.0);
        OpenCircuit(self.clone())
    }
}

/// An open circuit, counted.
#[derive(Debug)]
pub(super) struct OpenCircuit(TargetLabels);

impl Drop for OpenCircuit {
    fn drop(&mut self) {
        gauge!(CIRCUITS_OPEN, self.0.0.iter()).decrement(1.0);
    }
}
