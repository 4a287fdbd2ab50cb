//! Callers that pull: which of them get the next events.

use std::cell::Cell;
use std::time::Duration;

use crate::core::op::Settlement;
use crate::core::pull::{
    PATIENCE, PullAction, PullFetch, PulledEvent, Puller, REQUESTS_MAX, RequesterId,
};
use crate::core::step::Job;
use crate::error::ErrorKind;
use crate::event::QueueName;
use crate::time::{Mono, Timestamp};

/// How many callers are looked at for one fetch: those beyond it have another lease duration, or
/// wait for a queue that comes first.
pub(super) const LOOKED_AT_MAX: usize = 256;
/// The part of a lease that its caller has left at least when it waits for more.
const LEFT: (u32, u32) = (3, 4);

/// What a caller asks for.
#[derive(Debug)]
pub(crate) struct LeaseOrder {
    /// The caller; later ones have greater numbers.
    pub(crate) requester: RequesterId,
    /// The queues, each once, the most important first.
    pub(crate) queues: Vec<QueueName>,
    /// The most events.
    pub(crate) max: usize,
    /// The most bytes of their bodies; the last one may exceed it.
    pub(crate) bytes_max: usize,
    /// The duration of the leases.
    pub(crate) hold: Duration,
    /// Whether it waits for an event if none is ready.
    pub(crate) waits: bool,
}

/// A caller.
#[derive(Debug)]
pub(super) struct Requester<B> {
    pub(super) queues: Vec<usize>,
    max: usize,
    /// How many bytes more it takes.
    bytes_left: usize,
    pub(super) hold: Duration,
    pub(super) waits: bool,
    pub(super) arrived: Mono,
    pub(super) got: Vec<PulledEvent<B>>,
    /// When it gets its reply if no further event comes: a moment after the last one.
    replies_at: Option<Mono>,
    /// When the first of its leases ends.
    ends: Option<Timestamp>,
    /// Its shares of fetches in flight.
    reserved: usize,
    /// The first of its queues that may have events for it, as of a turn.
    pub(super) first: Cell<(u64, Option<usize>)>,
}

impl<B> Requester<B> {
    /// Returns how many more events to request for it.
    pub(super) fn wants(&self) -> usize {
        match self.bytes_left {
            0 => 0,
            _ => self.max.saturating_sub(self.got.len() + self.reserved),
        }
    }

    /// As [`wants`](Self::wants), of events with so many bytes each.
    pub(super) fn wants_of(&self, body_bytes: usize) -> usize {
        let fits = (self.bytes_left / body_bytes.max(1)).max(1);
        self.wants().min(fits.saturating_sub(self.reserved))
    }

    /// Whether it gets no more.
    fn has_enough(&self) -> bool {
        self.got.len() >= self.max || self.bytes_left == 0
    }
}

impl<B: Clone> Puller<B> {
    pub(super) fn add_requester(
        &mut self,
        now: Mono,
        order: &LeaseOrder,
        out: &mut Vec<PullAction<B>>,
    ) {
        let queues = order.queues.iter().map(|name| self.queue_of.get(name));
        let queues: Option<Vec<usize>> = queues.map(|at| at.copied()).collect();
        let refused = match queues {
            _ if self.is_stopping => Err(ErrorKind::Closed),
            _ if self.requesters.len() >= REQUESTS_MAX => Err(ErrorKind::Full),
            None => Err(ErrorKind::Full), // `serve` had no room for it
            Some(queues) => Ok(queues),
        };
        let requester = order.requester;
        let queues = match refused {
            Ok(queues) => queues,
            Err(kind) => {
                let leased = Err(kind);
                out.push(PullAction::Reply { requester, leased });
                return;
            }
        };
        for (at, number) in queues.iter().zip(1..) {
            let Some(queue) = self.queues.get_mut(at) else {
                continue;
            };
            queue.users += 1;
            queue.used_at = now;
            queue.requesters.insert(requester);
            if !order.waits {
                queue.unresolved.insert(requester);
            }
            if let Some(next) = queues.get(number) {
                *queue.followers.entry(*next).or_default() += 1;
            }
            self.touched_queues.insert(*at);
        }
        self.requesters.insert(
            requester,
            Requester {
                queues,
                max: order.max,
                bytes_left: order.bytes_max.max(1),
                hold: order.hold,
                waits: order.waits,
                arrived: now,
                got: Vec::new(),
                replies_at: None,
                ends: None,
                reserved: 0,
                first: Cell::default(),
            },
        );
    }

    /// Removes a caller from everything.
    pub(super) fn remove(&mut self, requester: RequesterId) -> Option<Requester<B>> {
        let gone = self.requesters.remove(&requester)?;
        for (at, number) in gone.queues.iter().zip(1..) {
            let Some(queue) = self.queues.get_mut(at) else {
                continue;
            };
            queue.users -= 1;
            queue.requesters.remove(&requester);
            queue.unresolved.remove(&requester);
            let next = gone.queues.get(number);
            if let Some((next, many)) = next.and_then(|it| Some((it, queue.followers.get_mut(it)?)))
            {
                *many -= 1;
                if *many == 0 {
                    queue.followers.remove(next);
                }
            }
        }
        Some(gone)
    }

    /// Replies to a caller.
    fn reply(&mut self, requester: RequesterId, out: &mut Vec<PullAction<B>>) {
        if let Some(done) = self.remove(requester) {
            let leased = Ok(done.got);
            out.push(PullAction::Reply { requester, leased });
        }
    }

    /// The wait of a caller is over: it gets what there is, or the error of a queue of which
    /// nothing is known.
    pub(super) fn expire(&mut self, requester: RequesterId, out: &mut Vec<PullAction<B>>) {
        let Some(done) = self.remove(requester) else {
            return;
        };
        let leased = match self.failure_of(&done) {
            Some(kind) if done.got.is_empty() => Err(kind),
            _ => Ok(done.got),
        };
        out.push(PullAction::Reply { requester, leased });
    }

    fn failure_of(&self, requester: &Requester<B>) -> Option<ErrorKind> {
        let queues = requester.queues.iter().filter_map(|at| self.queues.get(at));
        let mut buckets = queues.flat_map(|queue| &queue.buckets);
        buckets.find_map(|at| self.buckets.get(at)?.failed)
    }

    /// Refuses every caller.
    pub(super) fn stop(&mut self, out: &mut Vec<PullAction<B>>) {
        self.is_stopping = true;
        let all: Vec<RequesterId> = self.requesters.keys().copied().collect();
        for requester in all {
            if let Some(gone) = self.remove(requester) {
                self.hand_back(gone.got);
                let leased = Err(ErrorKind::Closed);
                out.push(PullAction::Reply { requester, leased });
            }
        }
    }

    /// Hands leased events back: nobody has seen them.
    pub(super) fn hand_back(&mut self, leased: Vec<PulledEvent<B>>) {
        for event in leased {
            if let Some(at) = self.bucket_of.get(&event.bucket) {
                self.give_back(*at, vec![event.release()]);
            }
        }
    }

    pub(super) fn give_back(&mut self, at: usize, settlements: Vec<Settlement>) {
        if let Some(bucket) = self.buckets.get_mut(&at) {
            bucket.returned.extend(settlements);
            self.touched.insert(at);
        }
    }

    /// Returns whether a queue may have events for a caller, as far as is known; `passes` is whether
    /// a bucket that has not replied for long counts as one that has none.
    pub(super) fn may_have(
        &self,
        now: Mono,
        caller: &Requester<B>,
        (queue, passes): (usize, bool),
    ) -> bool {
        let Some(pulled) = self.queues.get(&queue) else {
            return false;
        };
        if pulled.allows(now) == 0 {
            return false;
        }
        let mut buckets = pulled.buckets.iter().filter_map(|at| self.buckets.get(at));
        buckets.any(|bucket| {
            if let Some(passed_at) = bucket.passed_at() {
                return !passes || passed_at > now;
            }
            if bucket.rests_until > now {
                return false;
            }
            let is_outdated = !caller.waits && self.options.is_shared;
            let is_unknown = match bucket.known_at {
                None => true,
                Some(known) => is_outdated && known < caller.arrived,
            };
            is_unknown || bucket.is_hot(now, &self.clock)
        })
    }

    /// Notes the shares of a fetch.
    pub(super) fn reserve(&mut self, queue: usize, fetch: &PullFetch) {
        for (requester, share) in &fetch.shares {
            if let Some(caller) = self.requesters.get_mut(requester) {
                caller.reserved += share;
            }
            self.list(*requester);
        }
        if let Some(pulled) = self.queues.get_mut(&queue) {
            pulled.requested += fetch.requested;
        }
    }

    /// A fetch has ended, with its shares.
    pub(super) fn unreserve(&mut self, queue: usize, fetch: &PullFetch) {
        self.drop_shares(&fetch.shares);
        if let Some(pulled) = self.queues.get_mut(&queue) {
            pulled.requested = pulled.requested.saturating_sub(fetch.requested);
        }
    }

    /// Callers wait no more for what a fetch brings.
    pub(super) fn drop_shares(&mut self, shares: &[(RequesterId, usize)]) {
        for (requester, share) in shares {
            if let Some(caller) = self.requesters.get_mut(requester) {
                caller.reserved -= share;
            }
            self.list(*requester);
        }
    }

    /// Lists a caller in its queues if it wants more, and as unresolved if it gets a reply soon.
    fn list(&mut self, requester: RequesterId) {
        let Some(caller) = self.requesters.get(&requester) else {
            return;
        };
        let wants = caller.wants() > 0;
        let is_unresolved = !caller.waits || !caller.got.is_empty();
        for at in &caller.queues {
            let Some(queue) = self.queues.get_mut(at) else {
                continue;
            };
            if !wants {
                queue.requesters.remove(&requester);
            } else if queue.requesters.insert(requester) {
                self.touched_queues.insert(*at); // it may have what nobody wanted until now
            }
            if is_unresolved {
                queue.unresolved.insert(requester);
            }
        }
    }

    /// Gives an event to a caller; returns it if the caller has enough, or another duration in
    /// mind.
    pub(super) fn give(
        &mut self,
        requester: RequesterId,
        hold: Duration,
        event: PulledEvent<B>,
    ) -> Option<PulledEvent<B>> {
        let caller = self.requesters.get_mut(&requester);
        let Some(caller) = caller.filter(|it| it.hold == hold && it.wants() > 0) else {
            return Some(event);
        };
        let len = (self.body_len)(&event.delivery.body);
        caller.bytes_left = caller.bytes_left.saturating_sub(len);
        let ends = caller.ends.get_or_insert(event.deadline);
        *ends = event.deadline.min(*ends);
        caller.got.push(event);
        caller.replies_at = None;
        self.list(requester);
        None
    }

    /// Returns callers of a queue that may take what those of a fetch do not.
    pub(super) fn others(&self, now: Mono, queue: usize) -> Vec<RequesterId> {
        // They may have come after a pause was confirmed.
        let callers = self.queues.get(&queue).filter(|it| !it.is_paused());
        let callers = callers.into_iter().flat_map(|pulled| &pulled.requesters);
        let fits = |it: &&RequesterId| {
            let caller = self.requesters.get(it);
            caller.is_some_and(|caller| self.is_its_turn(now, caller, queue))
        };
        callers.take(LOOKED_AT_MAX).filter(fits).copied().collect()
    }

    /// Replies to a caller for which nothing more is ready.
    pub(super) fn resolve(
        &mut self,
        now: Mono,
        requester: RequesterId,
        out: &mut Vec<PullAction<B>>,
    ) {
        let Some(caller) = self.requesters.get(&requester) else {
            return;
        };
        if caller.has_enough() && caller.reserved == 0 {
            return self.reply(requester, out);
        }
        let may_get_more = caller.reserved > 0 || {
            let mut queues = caller.queues.iter();
            queues.any(|at| self.may_have(now, caller, (*at, false)))
        };
        if may_get_more {
            if !caller.got.is_empty() {
                self.wait_a_moment(now, requester, out);
            }
            return;
        }
        match self.failure_of(caller) {
            Some(_) if caller.got.is_empty() => self.expire(requester, out),
            _ if caller.waits && caller.got.is_empty() => {}
            _ => self.reply(requester, out),
        }
    }

    /// Lets a caller that has got events wait for more, and replies if it has waited long enough.
    fn wait_a_moment(&mut self, now: Mono, requester: RequesterId, out: &mut Vec<PullAction<B>>) {
        let Some(caller) = self.requesters.get_mut(&requester) else {
            return;
        };
        let at = *caller.replies_at.get_or_insert_with(|| {
            let left = caller.hold / LEFT.1 * LEFT.0;
            // Of a lease that takes no time nothing is left, and what is on its way is to be seen.
            let ends = caller.ends.filter(|_| !caller.hold.is_zero());
            let ends = ends.map(|ends| self.clock.mono_at(ends));
            (now + PATIENCE).min(ends.map_or(Mono::MAX, |ends| ends - left))
        });
        if at <= now {
            return self.reply(requester, out);
        }
        let Some(queue) = caller.queues.first().copied() else {
            return;
        };
        self.look_at(queue, at);
    }
}

impl<B> PulledEvent<B> {
    /// Returns the settlement that hands it back: nobody has seen it.
    pub(crate) fn release(self) -> Settlement {
        let job = Job {
            bucket: 0,
            fetched_us: self.fetched_us,
            delivery: self.delivery,
        };
        job.release()
    }
}
