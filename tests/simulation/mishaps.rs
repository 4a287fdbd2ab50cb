//! What is going to break, and when.

use duly::ErrorKind;

use crate::faults::Fault;
use crate::network::Cut;
use crate::plan::Class;
use crate::rng::{Rng, mix};
use crate::world::{Happening, World};

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
        for _ in 0..self.plan.fulls {
            let for_us = self.rng.within(100_000..3_000_000);
            self.plan_fault(Fault::Full { for_us });
        }
        for _ in 0..self.plan.failovers {
            let (back_us, for_us) = (
                self.rng.within(1_000..2_000_000),
                self.rng.within(1_000..3_000_000),
            );
            let (refuses, is_told) = (self.rng.chance(500), self.rng.chance(500));
            self.plan_fault(Fault::FailsOver {
                back_us,
                refuses,
                is_told,
                for_us,
            });
        }
        for _ in 0..self.plan.failures {
            let for_us = self.rng.within(10_000..2_000_000);
            self.plan_fault(Fault::Fails { for_us });
        }
        self.plan_controls();
        self.plan_lost_tails();
        self.plan_refusals();
        self.plan_suspensions();
        for _ in 0..self.plan.resizes {
            let node = self.some_node();
            let queue = usize::try_from(self.rng.within(0..self.plan.queues as u64)).unwrap_or(0);
            let capacity = self.plan.capacity_of(queue);
            let capacity = self.rng.pick(&[0, 0, 1, capacity]);
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

    /// Failovers that lose the last orders. They are drawn apart, so that seeds mean what they meant.
    fn plan_lost_tails(&mut self) {
        let mut rng = Rng::new(mix(self.rng.clone().next()));
        if self.plan.class != Class::Chaos || rng.chance(500) {
            return;
        }
        for _ in 0..rng.within(1..4) {
            let (at, for_us) = (
                rng.within(0..self.plan.heal_us),
                rng.within(1_000..2_000_000),
            );
            self.after(at, Happening::Breaks(Fault::RollReplica));
            self.after(at + for_us, Happening::Breaks(Fault::RollTailLost));
        }
    }

    /// One node alone is refused for a while, as by a proxy or a rule of its own. Drawn apart, too.
    fn plan_refusals(&mut self) {
        let mut rng = Rng::new(mix(self.rng.clone().next() + 1));
        if self.plan.class != Class::Chaos || rng.chance(500) {
            return;
        }
        for _ in 0..rng.within(1..4) {
            let node = usize::try_from(rng.within(0..self.plan.nodes as u64)).unwrap_or(0);
            let kind = rng.pick(&[
                ErrorKind::Unavailable,
                ErrorKind::Unknown,
                ErrorKind::Invalid,
                ErrorKind::Corrupt,
            ]);
            let (at, for_us) = (
                rng.within(0..self.plan.heal_us),
                rng.within(50_000..8_000_000),
            );
            for (at, cut) in [(at, Cut::Refused(kind)), (at + for_us, Cut::Nothing)] {
                self.after(at, Happening::Breaks(Fault::Cut { node, cut }));
            }
        }
    }

    fn plan_fault(&mut self, fault: Fault) {
        let at = self.rng.within(0..self.plan.heal_us);
        self.after(at, Happening::Breaks(fault));
    }

    fn some_node(&mut self) -> usize {
        usize::try_from(self.rng.within(0..self.plan.nodes as u64)).unwrap_or(0)
    }
}
