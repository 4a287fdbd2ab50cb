//! What a seed makes of the world: its size, its settings and its own mix of faults.

use std::time::Duration;

use duly::core::options::NodeOptions;

use crate::network::Cut;
use crate::rng::Rng;

const CUTS: [Cut; 7] = [
    Cut::All,
    Cut::Requests,
    Cut::Answers,
    Cut::Heartbeats,
    Cut::AllButHeartbeats,
    Cut::Roll,
    Cut::AllButRoll,
];

/// What may go wrong in a seed, and so what must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing: the exact promises bite.
    Calm,
    /// Nodes die, and nothing else happens: their work must be handed on in time.
    Crashes,
    /// The store cannot be reached for a while, and nothing else happens: no lease may be lost.
    Outages,
    /// Everything.
    Chaos,
}

/// A world before it begins. Chances are in a thousand.
#[derive(Clone, Debug)]
pub struct Plan {
    pub class: Class,
    pub nodes: usize,
    pub queues: usize,
    pub buckets: usize,
    pub events: usize,
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
    pub outages: u64,
    pub clock_steps: u64,
    pub stops: u64,
    pub resizes: u64,
    /// How often something is set of a queue for every node.
    pub controls: u64,
    /// The nodes below this one but for the first join late.
    pub late_joins: u64,
    /// So many buckets of each queue come while the nodes run.
    pub late_buckets: usize,
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

impl Plan {
    pub fn draw(rng: &mut Rng) -> Self {
        let class = match rng.within(0..100) {
            0..15 => Class::Calm,
            15..23 => Class::Crashes,
            23..31 => Class::Outages,
            _ => Class::Chaos,
        };
        let roomy = class == Class::Crashes || rng.chance(300);
        let events = rng.within(6..40) as usize;
        let capacity = if roomy {
            events + 8
        } else {
            rng.pick(&[1, 2, 3, 5, 16])
        };
        let workers = if roomy {
            capacity
        } else {
            1 + rng.within(0..capacity as u64) as usize
        };
        let heal_us = rng.within(3_000_000..9_000_000);
        let mut plan = Self {
            class,
            nodes: rng.within(1..5) as usize,
            queues: rng.pick(&[1, 1, 2, 3]),
            buckets: rng.pick(&[1, 1, 2, 4]),
            events,
            capacity,
            workers,
            options: options(rng, roomy),
            latency_us: rng.pick(&[(30, 200), (100, 2_000), (1_000, 8_000)]),
            patience_us: 500_000,
            lose: 0,
            duplicate: 0,
            slow: 0,
            slow_us: rng.pick(&[50_000, 700_000, 4_000_000]),
            wakes_lost: 0,
            crashes: 0,
            cuts: 0,
            cut_kinds: &CUTS,
            pauses: 0,
            outages: 0,
            clock_steps: 0,
            stops: 0,
            resizes: 0,
            controls: 0,
            late_joins: 0,
            late_buckets: rng.pick(&[0, 0, 1, 3]),
            rate: None,
            stays_paused: None,
            drift_ppm: rng.pick(&[0, 50, 500]),
            handler: handlers(rng),
            roomy,
            goes_on: false,
            heal_us,
            check_every: rng.pick(&[1, 8, 64]),
        };
        plan.draw_faults(rng);
        plan.goes_on = plan.options.sleep_max < Duration::from_secs(10) && rng.chance(500);
        plan
    }

    fn draw_faults(&mut self, rng: &mut Rng) {
        match self.class {
            Class::Calm => {
                if rng.chance(300) {
                    self.rate = Some(rng.pick(&[5.0, 20.0, 100.0]));
                }
            }
            Class::Crashes => {
                self.nodes = self.nodes.max(2);
                self.crashes = rng.within(1..4);
                self.latency_us.1 = self.latency_us.1.min(2_000);
            }
            Class::Outages => self.outages = rng.within(1..4),
            Class::Chaos => {
                let mut some = |most: u64| {
                    if rng.chance(500) {
                        rng.within(1..most + 1)
                    } else {
                        0
                    }
                };
                self.lose = some(80);
                self.duplicate = some(80);
                self.slow = some(60);
                self.wakes_lost = some(500);
                self.crashes = some(5);
                self.cuts = some(6);
                self.pauses = some(6);
                self.outages = some(3);
                self.clock_steps = some(4);
                self.stops = some(3);
                self.resizes = some(6);
                self.controls = some(6);
                self.late_joins = some(4);
                if self.nodes > 1 && rng.chance(200) {
                    self.stays_paused = Some(self.nodes - 1);
                }
                self.patience_us = rng.pick(&[150_000, 500_000, 2_000_000]);
                if rng.chance(200) {
                    self.only_stale(rng);
                }
            }
        }
    }

    /// Nothing but old messages that come late and heartbeats that do not come, with rings that are
    /// long and slow: what was believed lost meets what was believed answered.
    fn only_stale(&mut self, rng: &mut Rng) {
        (self.lose, self.crashes, self.stops, self.outages) = (0, 0, 0, 0);
        (self.duplicate, self.slow, self.slow_us) = (200, 80, 5_000_000);
        (self.cuts, self.cut_kinds) = (8, &[Cut::Heartbeats]);
        self.patience_us = 150_000;
        self.nodes = self.nodes.max(2);
        (self.capacity, self.workers, self.roomy) = (rng.within(3..7) as usize, 1, false);
        (self.handler.long, self.handler.hang) = (300, 0);
    }

    /// So long after the last fault nothing of it is left: no slow message, no rest after a failure
    /// and no sleeper that was not woken.
    pub fn calm_after_us(&self) -> u64 {
        let net = self.options.sleep_max.max(self.options.glance_every);
        6_500_000 + net.as_micros() as u64
    }

    /// For how long after the last fault, and the last due time, everything must be over.
    pub fn patience_after_heal_us(&self) -> u64 {
        self.calm_after_us() + self.handler.timeout_us + 20_000_000
    }
}

fn options(rng: &mut Rng, roomy: bool) -> NodeOptions {
    let ahead_ms = rng.pick(&[0, 20, 100]);
    let options = NodeOptions {
        glance_every: Duration::from_secs(rng.pick(&[2, 10, 30])),
        ahead: Duration::from_millis(ahead_ms),
        ahead_max: if roomy {
            65_536
        } else {
            rng.pick(&[1, 4, 65_536])
        },
        batch: if roomy {
            500
        } else {
            rng.pick(&[1, 2, 7, 500])
        },
        settle_linger: Duration::from_micros(rng.pick(&[0, 500, 5_000])),
        unsettled_max: if roomy {
            16_384
        } else {
            rng.pick(&[1, 4, 16_384])
        },
        sleep_max: Duration::from_secs(rng.pick(&[2, 2, 10, 30])),
        ..NodeOptions::default()
    };
    options.check().expect("a drawn plan is possible");
    options
}

fn handlers(rng: &mut Rng) -> Handlers {
    let mut some = |most: u64| {
        if rng.chance(500) {
            rng.within(1..most + 1)
        } else {
            0
        }
    };
    Handlers {
        fail: some(300),
        snooze: some(100),
        bury: some(60),
        discard: some(60),
        hang: some(40),
        long: some(150),
        long_us: 6_000_000,
        timeout_us: 7_000_000,
    }
}
