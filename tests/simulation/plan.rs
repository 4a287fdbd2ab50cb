//! What a seed makes of the world: its size, its settings and its own mix of faults.

use duly::config::NodeOptions;
use duly::store::DedupWindow;

use crate::network::Cut;

/// What may go wrong in a seed, and so what must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing: the exact promises bite.
    Calm,
    /// Nodes die, and nothing else happens: their work must be handed on in time.
    Crashes,
    /// The store cannot be reached for a while, and nothing else happens: no lease may be lost.
    Outages,
    /// One queue is clogged, and no other may notice.
    Clogged,
    /// There is no room for pushes for a while, and everything else goes on as if nothing were.
    Full,
    /// The store stops itself in doubt, and every process has to be started again.
    Doubt,
    /// The store fails over to an older state, and the last moments are lost: nothing can be said of
    /// any event but that it comes to its end.
    Failovers,
    /// Everything.
    Chaos,
}

/// A world before it begins. Chances are in a thousand.
#[derive(Clone, Debug)]
pub struct Plan {
    pub class: Class,
    pub nodes: usize,
    pub queues: usize,
    /// Which queues each node serves, a bit each; the first node serves all.
    pub serves: Vec<u64>,
    /// From when on how many buckets of each queue are pushed to.
    pub buckets: Vec<(u64, usize)>,
    /// Which finished ids a bucket remembers.
    pub remembers: DedupWindow,
    pub events: usize,
    /// How long payloads are.
    pub payload_bytes: usize,
    /// Credits and workers of a queue on one node.
    pub capacity: usize,
    pub workers: usize,
    pub options: NodeOptions,
    /// How long a message takes at least and at most, unless it is slow.
    pub latency_us: (u64, u64),
    /// After so long without an answer a call is given up as unknown.
    pub patience_us: u64,
    pub lose: u64,
    pub duplicate: u64,
    pub slow: u64,
    pub slow_us: u64,
    pub wakes_lost: u64,
    pub crashes: u64,
    pub cuts: u64,
    /// What a cut may cut.
    pub cut_kinds: &'static [Cut],
    pub pauses: u64,
    /// How often a machine is suspended, and its timers with it.
    pub suspensions: u64,
    pub outages: u64,
    /// How often the store is full for a while, and how often it stops itself for good.
    pub fulls: u64,
    pub failures: u64,
    /// How often it fails over to an older state.
    pub failovers: u64,
    pub clog: Clog,
    /// How many consumers take events under leases with deadlines of their own.
    pub manuals: u64,
    pub clock_steps: u64,
    /// How far the clocks of those who push may be off.
    pub client_clocks_us: u64,
    pub stops: u64,
    pub resizes: u64,
    /// How often something is set of a queue for every node.
    pub controls: u64,
    /// The nodes below this one but for the first join late.
    pub late_joins: u64,
    /// How many handlers of a queue may start in a second, where that is the same all the time.
    pub rate: Option<f64>,
    /// A node on which every queue is paused for good when everything else is well.
    pub stays_paused: Option<usize>,
    /// How far the nodes' own clocks run apart, in millionths.
    pub drift_ppm: u64,
    pub handler: Handlers,
    /// Whether there is room for everything at once, so that lateness has no excuse.
    pub roomy: bool,
    /// Whether more is pushed when everything has been well for a while.
    pub goes_on: bool,
    /// When everything is well again.
    pub heal_us: u64,
    /// How often the store's whole state is checked, in operations.
    pub check_every: u64,
}

/// What clogs the first queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clog {
    Nothing,
    /// Its handlers hang, so that its ring is full.
    Handlers,
    /// The store takes long for its buckets.
    Slow,
    /// The store refuses what concerns its buckets, again and again.
    Refusals,
}

/// What handlers do, as chances in a thousand; the rest succeeds at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handlers {
    pub fail: u64,
    pub snooze: u64,
    pub bury: u64,
    pub discard: u64,
    pub hang: u64,
    pub long: u64,
    pub long_us: u64,
    pub timeout_us: u64,
}

/// What clogs a queue by its handlers.
const HANGING: Handlers = Handlers {
    fail: 300,
    snooze: 0,
    bury: 0,
    discard: 0,
    hang: 800,
    long: 500,
    long_us: 6_000_000,
    timeout_us: 7_000_000,
};

impl Plan {
    /// So long after the last fault nothing of it is left: no slow message, no rest after a failure
    /// and no sleeper that was not woken.
    pub fn calm_after_us(&self) -> u64 {
        let net = self.options.sleep_max.max(self.options.fallback_scan_every);
        6_500_000 + net.as_micros() as u64
    }

    /// For how long after the last fault, and the last due time, everything must be over.
    pub fn patience_after_heal_us(&self) -> u64 {
        self.calm_after_us() + self.handler.timeout_us + 20_000_000
    }

    /// Credits of a queue on one node.
    pub fn capacity_of(&self, queue: usize) -> usize {
        if self.is_clogged(queue) {
            2
        } else {
            self.capacity
        }
    }

    /// Workers of a queue on one node.
    pub fn workers_of(&self, queue: usize) -> usize {
        self.workers.min(self.capacity_of(queue))
    }

    pub fn handler_of(&self, queue: usize) -> &Handlers {
        if self.is_clogged(queue) && self.clog == Clog::Handlers {
            &HANGING
        } else {
            &self.handler
        }
    }

    pub fn is_clogged(&self, queue: usize) -> bool {
        self.clog != Clog::Nothing && queue == 0
    }

    pub fn serves(&self, node: usize, queue: usize) -> bool {
        self.serves[node] >> queue & 1 == 1
    }

    /// How many buckets of each queue are pushed to at a time.
    pub fn buckets_at(&self, at_us: u64) -> usize {
        let until_now = self
            .buckets
            .iter()
            .rev()
            .find(|(from_us, _)| *from_us <= at_us);
        until_now.map_or(1, |(_, many)| *many)
    }

    /// How many buckets a queue ever has.
    pub fn buckets_max(&self) -> usize {
        self.buckets
            .iter()
            .map(|(_, many)| *many)
            .max()
            .unwrap_or(1)
    }
}
