//! What breaks when, and how it is mended.

use duly::core::step::Input;
use duly::history::What;

use crate::network::Cut;
use crate::plan::Class;
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
    pub fn plan_faults(&mut self) {
        let (class, heal_us) = (self.plan.class, self.plan.heal_us);
        self.after(heal_us, Happening::Breaks(Fault::Heal));
        for _ in 0..self.plan.crashes {
            let node = self.some_node();
            // One node always stays when the others' work must be handed on in time.
            if class == Class::Chaos || node > 0 {
                let for_us = self.rng.within(1_000..4_000_000);
                self.plan_fault(Fault::Crash { node, for_us });
            }
        }
        for _ in 0..self.plan.pauses {
            let for_us = self.rng.within(100_000..9_000_000);
            let node = self.some_node();
            self.plan_fault(Fault::Pause { node, for_us });
        }
        for _ in 0..self.plan.cuts {
            let (node, at) = (self.some_node(), self.rng.within(0..heal_us));
            let cut = self.rng.pick(self.plan.cut_kinds);
            let for_us = self.rng.within(50_000..8_000_000);
            self.after(at, Happening::Breaks(Fault::Cut { node, cut }));
            let mended = Fault::Cut {
                node,
                cut: Cut::Nothing,
            };
            self.after(at + for_us, Happening::Breaks(mended));
        }
        for _ in 0..self.plan.outages {
            let (refuses, for_us) = (self.rng.chance(500), self.rng.within(50_000..5_000_000));
            self.plan_fault(Fault::Outage { refuses, for_us });
        }
        for _ in 0..self.plan.clock_steps {
            let far = self
                .rng
                .pick(&[1_000, 1_500_000, 60_000_000, 3_600_000_000]);
            let by_us = i64::try_from(self.rng.within(1..far)).unwrap_or(0);
            let by_us = if self.rng.chance(500) { by_us } else { -by_us };
            self.plan_fault(Fault::Step { by_us });
        }
        for _ in 0..self.plan.stops {
            let node = self.some_node();
            self.plan_fault(Fault::Stop { node });
        }
        self.plan_controls();
        for _ in 0..self.plan.resizes {
            let node = self.some_node();
            let queue = usize::try_from(self.rng.within(0..self.plan.queues as u64)).unwrap_or(0);
            let capacity = self.rng.pick(&[0, 0, 1, self.plan.capacity]);
            self.plan_fault(Fault::Resize {
                node,
                queue,
                capacity,
            });
        }
    }

    /// A node that comes later than the others.
    pub fn join_late(&mut self, node: usize) {
        let at = self.rng.within(0..self.plan.heal_us);
        self.after(at, Happening::Breaks(Fault::Start { node }));
    }

    fn plan_controls(&mut self) {
        for _ in 0..self.plan.controls {
            let queue = usize::try_from(self.rng.within(0..self.plan.queues as u64)).unwrap_or(0);
            let paused = self.rng.chance(400);
            let rate = self
                .rng
                .pick(&[None, None, Some(3.0), Some(40.0), Some(5_000.0)]);
            self.plan_fault(Fault::Control {
                queue,
                paused,
                rate,
            });
        }
    }

    fn plan_fault(&mut self, fault: Fault) {
        let at = self.rng.within(0..self.plan.heal_us);
        self.after(at, Happening::Breaks(fault));
    }

    fn some_node(&mut self) -> usize {
        usize::try_from(self.rng.within(0..self.plan.nodes as u64)).unwrap_or(0)
    }

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
                    match self.store.is_down {
                        // A process does not begin without its store, and is started again.
                        true => self.after(100_000, Happening::Breaks(Fault::Start { node })),
                        false => self.start_node(node),
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
            Fault::Cut { node, cut } => self.network.cuts[node] = cut,
            Fault::Outage { refuses, for_us } => {
                self.store.is_down = true;
                self.store.refuses = refuses;
                self.store_dies();
                self.after(for_us, Happening::Breaks(Fault::OutageOver));
            }
            Fault::OutageOver => self.store.is_down = false,
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
            (false, true) => capacity.min(self.plan.workers),
            (false, false) => capacity,
        };
        if self.nodes[node].core.is_some() && self.nodes[node].paused_until_us <= self.now_us {
            self.drive(node, Some(Input::Resized { queue, capacity }));
        }
    }

    fn heal(&mut self) {
        self.is_healed = true;
        self.store.is_down = false;
        self.store.mend_clock();
        self.network.cuts.fill(Cut::Nothing);
        self.note(None, What::Healed);
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
                let capacity = if is_paused { 0 } else { self.plan.capacity };
                self.nodes[node].chosen[queue] = capacity;
                self.resize(node, queue, capacity);
            }
        }
    }
}
