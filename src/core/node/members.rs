//! Membership and rate changes: how a node reacts to other nodes.

use crate::core::bucket_state::BucketState;
use crate::core::membership::Member;
use crate::core::node::Node;
use crate::core::rate::Rate;
use crate::core::standby::Standby;
use crate::core::step::Action;
use crate::time::Mono;

impl<B> Node<B> {
    /// Polls the membership, which also reports this node as alive; unless it cannot renew its
    /// leases: then it must seem dead, so that others take over what it loses.
    pub(super) fn poll_members(&mut self, now: Mono, out: &mut Vec<Action<B>>) {
        // Whoever joins finds the leases of a halted queue only if their node seems dead for a while.
        let taken = self.options.lease_timeout * 3;
        let has_joined = self.joined.is_some_and(|at| now.since(at) < taken);
        let is_left = |state: &BucketState<B>| {
            has_joined && self.queues[state.queue].is_halted && state.leases.holdings.len() > 0
        };
        let is_heard = |state: &BucketState<B>| {
            state.failed || state.leases.is_heard(now, &self.options) && !is_left(state)
        };
        let may = self.buckets.iter().all(is_heard);
        self.members.call(now, may, &self.options);
        if may {
            out.push(Action::PollMembers);
        }
    }

    /// Handles the reply to a membership poll.
    pub(super) fn members_seen(&mut self, now: Mono, members: &[Member], out: &mut Vec<Action<B>>) {
        let change = self.members.handle_reply(now, members, &self.options);
        if change.suspicion {
            self.suspect();
        }
        if change.is_new {
            self.joined = Some(now);
            self.assign();
        }
        if change.is_fewer {
            out.push(Action::MemberLost);
        }
        if change.was_away {
            self.hold_back(now);
        }
    }

    /// Ends the calls of a queue, or lets them begin again.
    pub(super) fn halt(&mut self, queue: usize, is_halted: bool) {
        self.queues[queue].is_halted = is_halted;
        self.roomy.insert(queue);
    }

    /// Delays paced starts: until the others have seen this node, they share each rate without it.
    fn hold_back(&mut self, now: Mono) {
        let known_by_all = now + self.options.poll_every * 2;
        for queue in &mut self.queues {
            if let Some(rate) = &mut queue.rate
                && self.members.count(&queue.name) > 1
            {
                rate.hold_until(known_by_all);
            }
        }
    }

    /// A member may be dead: scans for its leases.
    pub(super) fn suspect(&mut self) {
        for (at, state) in self.buckets.iter_mut().enumerate() {
            state.reaper.suspects();
            state.standby.suspects(&self.options);
            self.touched.insert(at);
        }
    }

    /// Recomputes which buckets this node owns, and its share of each rate. Events prefetched from
    /// a bucket that gets another owner stay here.
    fn assign(&mut self) {
        for (at, state) in self.buckets.iter_mut().enumerate() {
            let rank = self.members.rank(&state.key);
            if state.standby.rank() != rank {
                state.standby = Standby::new(rank, &self.options);
                if rank == 0 {
                    state.mover.poll_at_once(); // the previous owner may have left events
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

    /// Sets the rate limit of a queue, over all nodes.
    pub(super) fn rated(
        &mut self,
        now: Mono,
        (queue, rate): (usize, Option<f64>),
        out: &mut Vec<Action<B>>,
    ) {
        let state = &mut self.queues[queue];
        let nodes = self.members.count(&state.name);
        match (&mut state.rate, rate) {
            (Some(rate), Some(per_second)) => rate.change(now, per_second, nodes),
            (state, rate) => *state = rate.map(|per_second| Rate::new(per_second, nodes)),
        }
        self.hand_back_excess(now, queue, out);
    }
}
