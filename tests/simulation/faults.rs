//! What breaks when, and how it is mended.

use duly::__internal::Input;
use duly_conformance::history::{EntryKind, Promise};

use crate::network::Cut;
use crate::store::Health;
use crate::world::{Happening, World};

/// Something that breaks, or is mended.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A process dies and is started again after a while.
    Crash {
        node: usize,
        for_us: u64,
    },
    Start {
        node: usize,
    },
    /// A process stands still, as after a SIGSTOP.
    Pause {
        node: usize,
        for_us: u64,
    },
    Resume {
        node: usize,
        life: u32,
    },
    /// The machine of a process is suspended, and its timers with it.
    Suspend {
        node: usize,
        for_us: u64,
    },
    Awake {
        node: usize,
        life: u32,
    },
    /// Messages between a node and the store get lost.
    Cut {
        node: usize,
        cut: Cut,
    },
    /// The store cannot be reached; it says so, or it does not.
    Outage {
        refuses: bool,
        for_us: u64,
    },
    OutageOver,
    /// The store cannot be reached for a while, and then it is as it was so long ago; nodes may be
    /// told to look at every bucket.
    FailsOver {
        back_us: u64,
        refuses: bool,
        is_told: bool,
        for_us: u64,
    },
    FailedOver {
        is_told: bool,
    },
    /// The store has no room for anything new.
    Full {
        for_us: u64,
    },
    FullOver,
    /// The store stops itself in doubt, until it is opened again and every process with it.
    Fails {
        for_us: u64,
    },
    Opened,
    /// A replica of the orders falls behind, takes over, and what it lacks is seen.
    RollReplica,
    RollTailLost,
    RollTailFound,
    /// The store's clock is set to another time.
    Step {
        by_us: i64,
    },
    /// A node is told to stop, and is started again afterwards.
    Stop {
        node: usize,
    },
    /// An operator gives a queue more or less room on a node.
    Resize {
        node: usize,
        queue: usize,
        capacity: usize,
    },
    /// An operator pauses a queue on every node, or resumes it, and gives it another rate.
    Control {
        queue: usize,
        paused: bool,
        rate: Option<f64>,
    },
    /// Everything is well from now on.
    Heal,
}

impl World {
    pub fn breaks(&mut self, fault: Fault) {
        if self.is_healed && !matches!(fault, Fault::Start { .. }) {
            return;
        }
        match fault {
            Fault::Crash { node, for_us } => {
                self.kill_node(node);
                self.after(for_us, Happening::Breaks(Fault::Start { node }));
            }
            Fault::Start { node } => {
                if self.nodes[node].core.is_none() {
                    if self.store.is_down || self.store.health != Health::Well {
                        self.after(100_000, Happening::Breaks(Fault::Start { node }));
                    } else {
                        self.start_node(node);
                    }
                }
            }
            Fault::Pause { node, for_us } => {
                let life = self.nodes[node].life;
                self.nodes[node].paused_until_us = self.now_us + for_us;
                self.after(for_us, Happening::Breaks(Fault::Resume { node, life }));
            }
            Fault::Resume { node, life } => {
                let still = self.nodes[node].paused_until_us <= self.now_us;
                if self.nodes[node].life == life && still {
                    self.resume_node(node);
                }
            }
            Fault::Suspend { node, for_us } => self.suspend(node, for_us),
            Fault::Awake { node, life } => self.awake(node, life),
            Fault::Cut { node, cut } => self.network.cuts[node] = cut,
            Fault::Outage { refuses, for_us } => {
                self.store.is_down = true;
                self.store.refuses = refuses;
                self.store_dies();
                self.after(for_us, Happening::Breaks(Fault::OutageOver));
            }
            Fault::OutageOver => self.store.is_down = false,
            Fault::FailsOver {
                back_us,
                refuses,
                is_told,
                for_us,
            } => {
                self.fail_over(back_us);
                self.store.is_down = true;
                self.store.refuses = refuses;
                self.after(for_us, Happening::Breaks(Fault::FailedOver { is_told }));
            }
            Fault::FailedOver { is_told } => {
                self.store.is_down = false;
                if is_told {
                    (0..self.keys.len()).for_each(|bucket| self.wake_all(bucket));
                }
            }
            Fault::Full { for_us } => {
                self.store.is_full = true;
                self.after(for_us, Happening::Breaks(Fault::FullOver));
            }
            Fault::FullOver => self.store.is_full = false,
            Fault::Fails { for_us } => {
                self.store.health = Health::FailureReason;
                self.after(for_us, Happening::Breaks(Fault::Opened));
            }
            Fault::Opened => self.open_again(),
            Fault::RollReplica => self.roll_has_replica(),
            Fault::RollTailLost => {
                self.roll_tail_lost();
                self.after(1_000_000, Happening::Breaks(Fault::RollTailFound));
            }
            Fault::RollTailFound => self.roll_tail_found(),
            Fault::Step { by_us } => self.store.step_clock(by_us),
            Fault::Stop { node } => {
                if self.nodes[node].paused_until_us <= self.now_us {
                    self.stop_node(node);
                }
            }
            Fault::Resize {
                node,
                queue,
                capacity,
            } => {
                if self.nodes[node].core.is_some() {
                    self.nodes[node].chosen[queue] = capacity;
                    self.resize(node, queue, capacity);
                }
            }
            Fault::Control {
                queue,
                paused,
                rate,
            } => {
                self.set_paused(queue, paused);
                self.set_rate(queue, rate);
            }
            Fault::Heal => self.heal(),
        }
    }

    /// The store is opened again after it has stopped itself, by processes that are started anew;
    /// one that was told to stop before comes to its end by itself.
    fn open_again(&mut self) {
        self.store.health = Health::Well;
        for node in 0..self.plan.nodes {
            if !self.nodes[node].is_stopping {
                self.kill_node(node);
                let rest_us = self.rng.within(1_000..300_000);
                self.after(rest_us, Happening::Breaks(Fault::Start { node }));
            }
        }
    }

    /// A node's stop is done: the process ends, and is started anew.
    pub fn node_stopped(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.core = None;
        node.life += 1;
        node.pools.clear();
        let rest_us = self.rng.within(1_000..500_000);
        self.after(rest_us, Happening::Breaks(Fault::Start { node: at }));
    }

    /// A queue has so much room on a node, unless it is paused everywhere.
    pub fn resize(&mut self, node: usize, queue: usize, capacity: usize) {
        let (paused, rated) = match self.nodes[node].told.get(queue) {
            Some(told) => *told,
            None => (false, false),
        };
        let capacity = match (paused, rated) {
            (true, _) => 0,
            // As the real driver does: what is published has to start at once.
            (false, true) => capacity.min(self.plan.workers_of(queue)),
            (false, false) => capacity,
        };
        if self.nodes[node].core.is_some() && self.nodes[node].paused_until_us <= self.now_us {
            let resized = Input::Resized {
                queue,
                capacity,
                workers: self.plan.workers_of(queue),
            };
            self.drive(node, Some(resized));
            let pool = &self.nodes[node].pools[queue];
            if pool.len() > capacity && !pool.ring.is_empty() {
                let text = "a node keeps more in its ring than it has room for";
                self.break_off(Promise::Full, None, text);
            }
        }
    }

    fn heal(&mut self) {
        self.is_healed = true;
        self.store.is_down = false;
        self.store.is_full = false;
        if self.store.health != Health::Well {
            self.open_again();
        }
        self.roll_tail_found();
        self.store.mend_clock();
        self.network.cuts.fill(Cut::Nothing);
        self.note(None, EntryKind::Healed);
        for queue in 0..self.plan.queues {
            self.set_paused(queue, false);
            self.set_rate(queue, self.plan.rate);
        }
        for node in 0..self.plan.nodes {
            if self.nodes[node].core.is_none() {
                self.start_node(node);
            } else {
                self.resume_node(node);
            }
            for queue in 0..self.plan.queues {
                let is_paused = self.plan.stays_paused == Some(node);
                let capacity = if is_paused {
                    0
                } else {
                    self.plan.capacity_of(queue)
                };
                self.nodes[node].chosen[queue] = capacity;
                self.resize(node, queue, capacity);
            }
        }
    }
}
