//! Fetches and probes: which bucket next, how much, and for whom.

use std::time::Duration;

use crate::core::op::{Fetch, StoreOp};
use crate::core::pull::requests::{LOOKED_AT_MAX, Requester};
use crate::core::pull::{PullAction, PullCallKind, PullFetch, Puller, RequesterId};
use crate::time::Mono;

impl<B: Clone> Puller<B> {
    /// Sends the fetches of a queue for its callers.
    pub(super) fn fetch_for(&mut self, now: Mono, queue: usize, out: &mut Vec<PullAction<B>>) {
        self.probe_for(now, queue, out);
        let Some(pulled) = self.queues.get_mut(&queue) else {
            return;
        };
        let many = pulled.buckets.len().max(1);
        pulled.turn = (pulled.turn + 1) % many;
        let first = pulled.turn;
        let order = pulled.buckets[first..]
            .iter()
            .chain(&pulled.buckets[..first]);
        let order: Vec<usize> = order.copied().collect();
        for at in order {
            let allowed = match self.queues.get(&queue) {
                Some(pulled) if pulled.requesters.is_empty() => return,
                Some(pulled) => pulled.allows(now),
                None => return,
            };
            if allowed == 0 {
                return self.arm_queue(now, queue);
            }
            let Some(bucket) = self.buckets.get(&at) else {
                continue;
            };
            let is_known = bucket.known_at.is_some();
            if !is_known
                || bucket.lost.is_some()
                || !bucket.may_poll(now)
                || !bucket.is_hot(now, &self.clock)
            {
                continue;
            }
            // As much as is known to be there, or as much as is wanted.
            let allowed = allowed.min(bucket.fetch_max());
            let (ready, due) = bucket.split(allowed, now, &self.clock);
            let (hold, shares) = self.shares(now, queue, ready + due, bucket.body_bytes);
            let wanted = shares.iter().map(|(_, share)| share).sum();
            let Some(bucket) = self.buckets.get(&at).filter(|_| wanted > 0) else {
                continue;
            };
            let (ready, due) = bucket.split(wanted, now, &self.clock);
            let request = self.number();
            let fetch = PullFetch {
                request,
                first_sent: now,
                hold,
                ready,
                due,
                shares,
                requested: wanted,
            };
            self.reserve(queue, &fetch);
            self.send_fetch(now, at, fetch, out);
        }
    }

    /// Lets those callers of a fetch that has no reply for too long go on who have other queues. What
    /// it brings later is for whoever wants it then. Others would only send a slow store more calls.
    pub(super) fn go_past(&mut self, now: Mono, at: usize) {
        let bucket = self.buckets.get_mut(&at);
        let Some(call) = bucket.and_then(|bucket| bucket.goes_past(now)) else {
            return;
        };
        if let Some(PullCallKind::Fetch(fetch)) = self.calls.get_mut(&call).map(|it| &mut it.kind) {
            let goes = |(requester, _): &mut (RequesterId, usize)| {
                let caller = self.requesters.get(requester);
                caller.is_none_or(|caller| caller.queues.len() > 1)
            };
            let shares: Vec<_> = fetch.shares.extract_if(.., goes).collect();
            self.drop_shares(&shares);
        }
    }

    /// Probes the buckets of which too little is known, all at once.
    fn probe_for(&mut self, now: Mono, queue: usize, out: &mut Vec<PullAction<B>>) {
        let Some(pulled) = self.queues.get(&queue) else {
            return;
        };
        if pulled.requesters.is_empty() || pulled.allows(now) == 0 {
            return;
        }
        // A caller that does not wait is told what was so when it came.
        let news = pulled
            .unresolved
            .iter()
            .filter_map(|it| self.requesters.get(it));
        let news = news.filter(|it| !it.waits && it.wants() > 0);
        let since = news.map(|it| it.arrived).max();
        let since = since.filter(|_| self.options.is_shared);
        for at in pulled.buckets.clone() {
            let Some(bucket) = self.buckets.get(&at).filter(|it| it.may_poll(now)) else {
                continue;
            };
            let is_outdated = match (bucket.known_at, since) {
                (None, _) => true,
                (Some(known), Some(since)) => known < since && !bucket.is_hot(now, &self.clock),
                (Some(_), None) => false,
            };
            if is_outdated && bucket.lost.is_none() {
                self.probe(now, at, out);
            }
        }
    }

    pub(super) fn probe(&mut self, now: Mono, at: usize, out: &mut Vec<PullAction<B>>) {
        if let Some(bucket) = self.buckets.get_mut(&at) {
            bucket.polls(now, &self.options);
            let (limit, calls) = (0, false);
            let op = StoreOp::MoveDue { limit, calls };
            self.call(now, (at, PullCallKind::Probe), op, out);
        }
    }

    pub(super) fn send_fetch(
        &mut self,
        now: Mono,
        at: usize,
        fetch: PullFetch,
        out: &mut Vec<PullAction<B>>,
    ) {
        let Some(bucket) = self.buckets.get_mut(&at) else {
            return;
        };
        bucket.lost = None;
        bucket.polls(now, &self.options);
        let op = StoreOp::Fetch(Fetch {
            node: self.node,
            request: fetch.request,
            limit: fetch.ready,
            ahead: Duration::ZERO,
            ahead_limit: fetch.due,
            hold: Some(fetch.hold),
            starts: 0,
        });
        self.call(now, (at, PullCallKind::Fetch(fetch)), op, out);
    }

    /// Returns who gets the next `many` events of a queue, each of so many bytes as far as is known,
    /// and all for one lease duration: that of the first caller.
    fn shares(
        &self,
        now: Mono,
        queue: usize,
        many: usize,
        body_bytes: usize,
    ) -> (Duration, Vec<(RequesterId, usize)>) {
        let (mut hold, mut left, mut shares) = (None, many, Vec::new());
        let callers = self.queues.get(&queue).into_iter();
        let callers = callers.flat_map(|pulled| &pulled.requesters);
        for requester in callers.take(LOOKED_AT_MAX) {
            let Some(caller) = self.requesters.get(requester) else {
                continue;
            };
            let is_alike = hold.is_none_or(|hold| hold == caller.hold);
            // One that comes before it has nothing, or this one would not be fetched from.
            let is_its_turn = || {
                self.first_queue(now, caller)
                    .is_none_or(|first| first == queue)
            };
            if left == 0 || !is_alike || !is_its_turn() {
                continue;
            }
            let share = caller.wants_of(body_bytes).min(left);
            if share == 0 {
                continue;
            }
            hold = Some(caller.hold);
            left -= share;
            shares.push((*requester, share));
        }
        (hold.unwrap_or_default(), shares)
    }

    /// Returns the first queue that may have events for a caller. A turn asks for it once: it asks for
    /// each of many queues whose turn it is.
    fn first_queue(&self, now: Mono, caller: &Requester<B>) -> Option<usize> {
        let (turn, known) = caller.first.get();
        if turn == self.turns {
            return known;
        }
        let mut queues = caller.queues.iter().copied();
        let first = queues.find(|at| self.may_have(now, caller, (*at, true)));
        caller.first.set((self.turns, first));
        first
    }

    /// Returns whether the queues that come before `queue` have nothing for this caller.
    pub(super) fn is_its_turn(&self, now: Mono, caller: &Requester<B>, queue: usize) -> bool {
        let before = caller.queues.iter().take_while(|at| **at != queue);
        before
            .into_iter()
            .all(|at| !self.may_have(now, caller, (*at, true)))
    }
}
