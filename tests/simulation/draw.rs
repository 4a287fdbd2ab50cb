//! How a seed becomes a plan.

use std::time::Duration;

use duly::config::NodeOptions;
use duly::store::DedupWindow;

use crate::network::Cut;
use crate::plan::{Class, Clog, Handlers, Plan};
use crate::rng::{Rng, mix};

const CUTS: [Cut; 7] = [
    Cut::All,
    Cut::Requests,
    Cut::Answers,
    Cut::Heartbeats,
    Cut::AllButHeartbeats,
    Cut::Membership,
    Cut::AllButRoll,
];

impl Plan {
    pub fn draw(rng: &mut Rng) -> Self {
        let class = match rng.within(0..100) {
            0..13 => Class::Calm,
            13..20 => Class::Crashes,
            20..27 => Class::Outages,
            27..33 => Class::Clogged,
            33..38 => Class::Full,
            38..44 => Class::Doubt,
            44..50 => Class::Failovers,
            _ => Class::Chaos,
        };
        let must_be_roomy = matches!(class, Class::Crashes | Class::Clogged | Class::Full);
        let roomy = must_be_roomy || rng.chance(300);
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
            serves: Vec::new(),
            buckets: Vec::new(),
            remembers: DedupWindow::default(),
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
            suspensions: 0,
            outages: 0,
            fulls: 0,
            failures: 0,
            failovers: 0,
            clog: Clog::Nothing,
            manuals: 0,
            clock_steps: 0,
            client_clocks_us: 0,
            stops: 0,
            resizes: 0,
            controls: 0,
            late_joins: 0,
            rate: None,
            stays_paused: None,
            drift_ppm: rng.pick(&[0, 50, 500]),
            handler: handlers(rng),
            roomy,
            goes_on: false,
            heal_us,
            check_every: rng.pick(&[1, 8, 64]),
            payload_bytes: 8,
        };
        plan.draw_faults(rng);
        plan.draw_shares(rng);
        plan.goes_on = plan.options.sleep_max < Duration::from_secs(10) && rng.chance(500);
        // Drawn apart, so that seeds mean what they meant, and seldom: it takes long. An answer
        // brings four of them, which is late where there is room for everything at once.
        let mut apart = Rng::new(mix(rng.clone().next() + 2));
        if !roomy && apart.chance(20) {
            plan.payload_bytes = 1 << 20;
        }
        // Replies that arrive when a lease of its own deadline is over, and somebody else has the event.
        let mut apart = Rng::new(mix(rng.clone().next() + 8));
        if plan.manuals > 0 && apart.chance(700) {
            (plan.slow, plan.slow_us, plan.patience_us) = (100, 2_000_000, 2_000_000);
            (plan.manuals, plan.crashes, plan.stops) = (8, 0, 0);
        }
        // Machines that are suspended while something waits in their rings.
        let mut apart = Rng::new(mix(rng.clone().next() + 9));
        if plan.class == Class::Chaos && apart.chance(100) {
            plan.suspensions = apart.within(1..5);
            (plan.capacity, plan.workers, plan.roomy) = (apart.within(3..7) as usize, 1, false);
            plan.handler.long = 300;
        }
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
                if rng.chance(300) {
                    // Most of a line dies, one after the other, and who was far back is left.
                    (self.nodes, self.crashes) = (rng.within(4..9) as usize, rng.within(3..8));
                }
                self.latency_us.1 = self.latency_us.1.min(2_000);
            }
            Class::Outages => self.outages = rng.within(1..4),
            Class::Clogged => {
                self.queues = self.queues.max(2);
                self.clog = rng.pick(&[Clog::Handlers, Clog::Slow, Clog::Refusals]);
            }
            Class::Full => self.fulls = rng.within(1..4),
            Class::Doubt => self.failures = rng.within(1..3),
            Class::Failovers => {
                self.failovers = rng.within(1..4);
                self.crashes = rng.pick(&[0, 0, 1]);
                self.lose = rng.pick(&[0, 0, 40]);
                self.options.fallback_scan_every = Duration::from_secs(2);
                self.options.sleep_max = Duration::from_secs(2);
            }
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
                self.client_clocks_us = rng.pick(&[0, 0, 2_000_000, 3_600_000_000]);
                if rng.chance(250) {
                    self.remembers = some_window(rng);
                }
                if rng.chance(250) {
                    // Their deadlines are told by the store's clock.
                    (self.manuals, self.clock_steps) = (rng.within(1..4), 0);
                    // Whoever looks takes back what is past its deadline.
                    self.options.fallback_scan_every = Duration::from_millis(300);
                }
                if rng.chance(150) {
                    self.failures = 1;
                }
                if rng.chance(150) {
                    // A copy of what was refused would not know of it.
                    (self.fulls, self.duplicate) = (rng.within(1..4), 0);
                }
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

    /// Who serves what, and how many buckets there are when.
    fn draw_shares(&mut self, rng: &mut Rng) {
        let all = (1 << self.queues) - 1;
        let is_shared = rng.chance(400);
        self.serves = vec![all; self.nodes];
        for serves in self.serves.iter_mut().skip(1) {
            if is_shared {
                *serves = rng.within(1..all + 1);
            }
        }
        self.buckets.push((0, rng.pick(&[1, 1, 2, 4])));
        for _ in 0..rng.pick(&[0, 0, 1, 2]) {
            let many = rng.pick(&[1, 2, 4, 5]);
            self.buckets.push((rng.within(0..self.heal_us), many));
        }
        self.buckets.sort_unstable();
    }

    /// Nothing but old messages that come late and heartbeats that do not come, with rings that are
    /// long and slow: what was believed lost meets what was believed answered.
    fn only_stale(&mut self, rng: &mut Rng) {
        (self.lose, self.crashes, self.stops, self.outages) = (0, 0, 0, 0);
        (self.failures, self.fulls, self.manuals) = (0, 0, 0);
        (self.duplicate, self.slow, self.slow_us) = (200, 80, 5_000_000);
        (self.cuts, self.cut_kinds) = (8, &[Cut::Heartbeats]);
        self.patience_us = 150_000;
        self.nodes = self.nodes.max(2);
        (self.capacity, self.workers, self.roomy) = (rng.within(3..7) as usize, 1, false);
        (self.handler.long, self.handler.hang) = (300, 0);
    }
}

fn options(rng: &mut Rng, roomy: bool) -> NodeOptions {
    let ahead_ms = rng.pick(&[0, 20, 100]);
    let options = NodeOptions {
        fallback_scan_every: Duration::from_secs(rng.pick(&[2, 10, 30])),
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
        // Worlds do not live for half a minute after the last fault.
        refused_max: Duration::from_secs(5),
        starts_min: if roomy { 64 } else { rng.pick(&[1, 2, 64]) },
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

/// A window that is small enough for a world of some seconds, by number, by time, or by both.
fn some_window(rng: &mut Rng) -> DedupWindow {
    let max = rng.pick(&[0, 1, 5, 20]);
    let cap = if rng.chance(500) {
        max
    } else {
        max + rng.pick(&[3, 1_000])
    };
    DedupWindow {
        max,
        cap,
        keep_for: Duration::from_millis(rng.pick(&[0, 300, 2_000])),
        max_age: Duration::from_secs(rng.pick(&[3, 86_400])),
    }
}
