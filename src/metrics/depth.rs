//! Gauges of queue depth, of all buses of a process.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

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
    /// Adds another share of the same queue, of one with the same label, or of another store.
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

/// Whose events a bus counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CountedStore {
    /// A store that the bus has opened for itself.
    Own,
    /// One that others may have, by the hash of its URL: buses with the same one count the same
    /// events. Stores that programs hand to their buses cannot be told apart.
    Shared(u64),
}

impl CountedStore {
    pub(crate) fn of(is_shared: bool, url: Option<&str>) -> Self {
        if !is_shared && url.is_some() {
            return Self::Own;
        }
        let mut hasher = DefaultHasher::new();
        url.hash(&mut hasher);
        Self::Shared(hasher.finish())
    }
}

/// A node, and the store that it counts.
type Node = (CountedStore, u64);

/// The shares of every bus of this process: gauges belong to the process.
static ALL: Mutex<BTreeMap<Node, QueueDepths>> = Mutex::new(BTreeMap::new());

/// Replaces the shares of a node's bus.
pub(crate) fn tell_shares(store: CountedStore, node: u64, shares: QueueDepths) {
    let mut all = ALL.lock();
    let labels: BTreeSet<SharedString> = shares.keys().cloned().collect();
    let before = if shares.is_empty() {
        all.remove(&(store, node))
    } else {
        all.insert((store, node), shares)
    };
    let before = before.into_iter().flat_map(QueueDepths::into_keys);
    for label in labels.into_iter().chain(before).collect::<BTreeSet<_>>() {
        let of_label = all.iter();
        let of_label = of_label.filter_map(|(node, shares)| Some((*node, shares.get(&label)?)));
        sum(of_label).tell(&label);
    }
}

/// Adds what different stores have, each of which as the bus that sees most of it counts it.
fn sum<'a>(shares: impl Iterator<Item = (Node, &'a QueueDepth)>) -> QueueDepth {
    let mut of_stores = BTreeMap::<_, QueueDepth>::new();
    for ((store, node), share) in shares {
        let only_of = (store == CountedStore::Own).then_some(node);
        of_stores.entry((store, only_of)).or_default().max(share);
    }
    let mut all = QueueDepth::default();
    of_stores.values().for_each(|of_store| all.add(of_store));
    all
}
