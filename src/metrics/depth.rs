//! Gauges of queue depth, of all buses of a process.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use ::metrics::SharedString;

use super::catalogue::{DEPTH, DUE, OLDEST_READY};
use super::guarded::gauge;

/// The time spans in which due events are counted: the label's value, and seconds.
pub(crate) const WITHIN: [(&str, u64); 4] = [("10s", 10), ("1m", 60), ("10m", 600), ("1h", 3_600)];

/// The depth of one queue, as one bus sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct QueueDepth {
    pub(crate) scheduled: usize,
    pub(crate) ready: usize,
    pub(crate) leased: usize,
    pub(crate) dead: usize,
    /// How many events fall due within each span of [`WITHIN`].
    pub(crate) due: [usize; WITHIN.len()],
    /// The age of the oldest ready event, in seconds.
    pub(crate) oldest_ready: f64,
}

impl QueueDepth {
    /// Adds another share of the same queue, or of one with the same label.
    pub(crate) fn add(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.ready += other.ready;
        self.leased += other.leased;
        self.dead += other.dead;
        for (due, other) in self.due.iter_mut().zip(other.due) {
            *due += other;
        }
        self.oldest_ready = self.oldest_ready.max(other.oldest_ready);
    }

    /// Takes the larger of each number: two buses of one store report the same events.
    fn max(&mut self, other: &Self) {
        self.scheduled = self.scheduled.max(other.scheduled);
        self.ready = self.ready.max(other.ready);
        self.leased = self.leased.max(other.leased);
        self.dead = self.dead.max(other.dead);
        for (due, other) in self.due.iter_mut().zip(other.due) {
            *due = (*due).max(other);
        }
        self.oldest_ready = self.oldest_ready.max(other.oldest_ready);
    }

    fn tell(&self, queue: &SharedString) {
        let states = [
            ("scheduled", self.scheduled),
            ("ready", self.ready),
            ("leased", self.leased),
            ("dead", self.dead),
        ];
        for (state, count) in states {
            gauge!(DEPTH, "queue" => queue.clone(), "state" => state).set(count as f64);
        }
        for ((within, _), count) in WITHIN.iter().zip(self.due) {
            gauge!(DUE, "queue" => queue.clone(), "within" => *within).set(count as f64);
        }
        gauge!(OLDEST_READY, "queue" => queue.clone()).set(self.oldest_ready);
    }
}

/// The shares of one bus, by queue label.
pub(crate) type QueueDepths = BTreeMap<SharedString, QueueDepth>;

/// The shares of every bus of this process, by node: gauges belong to the process.
static ALL: Mutex<BTreeMap<u64, QueueDepths>> = Mutex::new(BTreeMap::new());

/// Replaces the shares of a node's bus.
pub(crate) fn tell_shares(node: u64, shares: QueueDepths) {
    let mut all = ALL.lock();
    let labels: BTreeSet<SharedString> = shares.keys().cloned().collect();
    let before = if shares.is_empty() {
        all.remove(&node)
    } else {
        all.insert(node, shares)
    };
    let before = before.into_iter().flat_map(QueueDepths::into_keys);
    for label in labels.into_iter().chain(before).collect::<BTreeSet<_>>() {
        let mut most = QueueDepth::default();
        let of_label = all.values().filter_map(|shares| shares.get(&label));
        of_label.for_each(|share| most.max(share));
        most.tell(&label);
    }
}
