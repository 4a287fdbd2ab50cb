//! Machines that are suspended for a while: their clocks go on, and their timers do not.

use crate::faults::Fault;
use crate::rng::{Rng, mix};
use crate::world::{Happening, World};

/// How often a process looks whether its timers stood still.
const WATCHED_EVERY_US: u64 = 1_000_000;

impl World {
    /// They are drawn apart, so that seeds mean what they meant.
    pub fn plan_suspensions(&mut self) {
        let mut rng = Rng::new(mix(self.rng.clone().next() + 3));
        for _ in 0..self.plan.suspensions {
            let node = usize::try_from(rng.within(0..self.plan.nodes as u64)).unwrap_or(0);
            let (at, for_us) = (
                rng.within(0..self.plan.heal_us),
                rng.within(100_000..5_000_000),
            );
            self.after(at, Happening::Breaks(Fault::Suspend { node, for_us }));
        }
    }

    pub fn suspend(&mut self, at: usize, for_us: u64) {
        let node = &mut self.nodes[at];
        if node.core.is_none() || node.paused_until_us > self.now_us {
            return;
        }
        node.paused_until_us = self.now_us + for_us;
        let life = node.life;
        self.after(for_us, Happening::Breaks(Fault::Awake { node: at, life }));
    }

    /// The node reads now what was sent to it, and looks at its own time when something has come, or
    /// when it notices that its timers are late.
    pub fn awake(&mut self, at: usize, life: u32) {
        let node = &mut self.nodes[at];
        if node.life != life || node.paused_until_us > self.now_us {
            return;
        }
        let now = node.mono(self.now_us);
        node.backlog
            .iter_mut()
            .for_each(|(arrived, _)| *arrived = now);
        self.read_backlog(at);
        let notices_us = self.now_us + self.rng.within(0..WATCHED_EVERY_US);
        let node = &mut self.nodes[at];
        if notices_us < node.turn_at_us {
            node.turn_at_us = notices_us;
            let delay_us = notices_us - self.now_us;
            self.after(delay_us, Happening::Turn { node: at, life });
        }
    }
}
