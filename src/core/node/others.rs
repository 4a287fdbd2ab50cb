//! What a node makes of the other nodes.

use crate::core::bucket_care::BucketCare;
use crate::core::node::Node;
use crate::core::rate::Rate;
use crate::core::roll::Member;
use crate::core::standby::Standby;
use crate::core::step::Action;
use crate::time::Mono;

impl<B> Node<B> {
    /// Says that it is there, unless it cannot keep what it holds: then nobody shall think that it
    /// can, and the others look for what it loses.
    pub(super) fn call_roll(&mut self, now: Mono, out: &mut Vec<Action<B>>) {
        let is_heard =
            |care: &BucketCare<B>| care.doubted || care.leases.is_heard(now, &self.options);
        let may = self.buckets.iter().all(is_heard);
        self.members.call(now, may, &self.options);
        if may {
            out.push(Action::CallRoll);
        }
    }

    /// A roll call was answered now.
    pub(super) fn rolled(&mut self, now: Mono, members: &[Member], out: &mut Vec<Action<B>>) {
        let turnout = self.members.answered(now, members, &self.options);
        if turnout.suspicion {
            self.suspect();
        }
        if turnout.is_new {
            self.assign();
        }
        if turnout.is_fewer {
            out.push(Action::Bereft);
        }
        if turnout.was_away {
            self.hold_back(now);
        }
    }

    /// Until the others have heard of this node, they share each rate without it.
    fn hold_back(&mut self, now: Mono) {
        let heard = now + self.options.roll_every * 2;
        for queue in &mut self.queues {
            if let Some(rate) = &mut queue.rate
                && self.members.count(&queue.name) > 1
            {
                rate.hold_until(heard);
            }
        }
    }

    /// Somebody may be dead: whatever he holds is looked for.
    pub(super) fn suspect(&mut self) {
        for (at, care) in self.buckets.iter_mut().enumerate() {
            care.reaper.suspects();
            care.standby.suspects(&self.options);
            self.touched.insert(at);
        }
    }

    /// Says anew which buckets this node looks at first, and what its part of each rate is. What is
    /// held of a bucket that goes to another stays here.
    fn assign(&mut self) {
        for (at, care) in self.buckets.iter_mut().enumerate() {
            let rank = self.members.rank(&care.key);
            if care.standby.rank() != rank {
                care.standby = Standby::new(rank, &self.options);
                if rank == 0 {
                    care.mover.found(); // whoever was the owner may have left something
                }
                self.touched.insert(at);
            }
        }
        for queue in &mut self.queues {
            queue.nodes = self.members.count(&queue.name);
            if let Some(rate) = &mut queue.rate {
                rate.share_among(queue.nodes);
            }
        }
    }

    /// Handlers of a queue start at most so often, on all nodes together.
    pub(super) fn rated(&mut self, now: Mono, queue: usize, rate: Option<f64>) {
        let care = &mut self.queues[queue];
        let nodes = self.members.count(&care.name);
        match (&mut care.rate, rate) {
            (Some(rate), Some(per_second)) => rate.change(now, per_second, nodes),
            (care, rate) => *care = rate.map(|per_second| Rate::new(per_second, nodes)),
        }
        self.roomy.insert(queue);
    }
}
