//! The handling of replies of the store by a puller, and its calls other than fetches.

use std::time::Duration;

use crate::core::op::{BATCH_MAX, FetchReport, MoveReport, Reply, Response, StartMark, StoreOp};
use crate::core::pull::{
    PullAction, PullCall, PullCallKind, PullFetch, PulledEvent, Puller, RequesterId,
};
use crate::error::ErrorKind;
use crate::time::{Mono, When};

impl<B: Clone> Puller<B> {
    /// Handles the reply to a call, or its failure.
    pub(super) fn handle_reply(
        &mut self,
        now: Mono,
        call: PullCall,
        response: Result<Response<B>, ErrorKind>,
    ) {
        let (at, sent) = (call.bucket, call.sent);
        let response = response.inspect(|response| self.clock.learn(sent, now, response.now_us));
        let Some(bucket) = self.buckets.get_mut(&at) else {
            return;
        };
        match (call.kind, response) {
            (PullCallKind::Probe, Ok(response)) => match response.reply {
                Reply::Moved(MoveReport {
                    ready, next_due, ..
                }) => bucket.knows(sent, ready, next_due),
                _ => self.failed(now, at, ErrorKind::Corrupt),
            },
            (PullCallKind::Probe, Err(kind)) => self.failed(now, at, kind),
            (PullCallKind::Fetch(fetch), response) => {
                self.fetched(now, (at, sent), &fetch, response);
            }
            (PullCallKind::Reap, Ok(response)) => match response.reply {
                Reply::Reaped(reaped) => {
                    if reaped.ready > 0 {
                        bucket.wake();
                    }
                    let ends = (reaped.next_deadline, reaped.more);
                    let many = self.scanned.len();
                    if bucket.reaped(now, ends, (&self.clock, &self.options, many)) {
                        self.scanned.insert(at);
                    } else {
                        self.scanned.remove(&at);
                    }
                }
                _ => bucket.reap_failed(now, &self.options),
            },
            (PullCallKind::Reap, Err(_)) => bucket.reap_failed(now, &self.options),
            (PullCallKind::Release(_), Ok(_)) => {
                bucket.is_settling = false;
                bucket.wake(); // what was handed back is ready
            }
            (PullCallKind::Release(settlements), Err(_)) => {
                // Releasing again does no harm; those that never succeed end with their deadline.
                let room = BATCH_MAX
                    .saturating_mul(16)
                    .saturating_sub(bucket.returned.len());
                bucket.returned.extend(settlements.into_iter().take(room));
                bucket.settle_failed(now, &self.options);
            }
        }
    }

    fn fetched(
        &mut self,
        now: Mono,
        (at, sent): (usize, Mono),
        fetch: &PullFetch,
        response: Result<Response<B>, ErrorKind>,
    ) {
        let Some(bucket) = self.buckets.get_mut(&at) else {
            return;
        };
        let queue = bucket.queue;
        let (now_us, deliveries) = match response {
            Ok(Response {
                now_us,
                reply:
                    Reply::Fetched(FetchReport {
                        deliveries,
                        ready,
                        next_due,
                        ..
                    }),
            }) => {
                let lens = deliveries.iter().map(|it| (self.body_len)(&it.body));
                bucket.fetched(lens.max());
                bucket.knows(sent, ready, next_due);
                (now_us, deliveries)
            }
            response => {
                let kind = response.err().unwrap_or(ErrorKind::Corrupt);
                // It may have leased events, which its repeat returns. That a repeat is refused
                // says nothing of what came before it.
                let may_hold = sent > fetch.first_sent && now.since(fetch.first_sent) < fetch.hold;
                // One that is refused for good would keep its bucket from all others for as long.
                let is_passing = matches!(kind, ErrorKind::Unavailable | ErrorKind::TimedOut);
                if kind == ErrorKind::Unknown || may_hold && is_passing {
                    bucket.lost = Some(PullFetch {
                        shares: Vec::new(),
                        requested: 0,
                        ..fetch.clone()
                    });
                }
                self.unreserve(queue, fetch);
                return self.failed(now, at, kind);
            }
        };
        let key = bucket.key.clone();
        // The leases of a repeat may be as old as the first fetch, and may have ended meanwhile.
        let is_repeat = sent > fetch.first_sent;
        let age = if is_repeat {
            now.since(fetch.first_sent)
        } else {
            Duration::ZERO
        };
        let deadline = When::After(fetch.hold.saturating_sub(age)).due(now_us);
        if !deliveries.is_empty() {
            bucket.leased(deadline, &self.clock);
        }
        self.unreserve(queue, fetch);
        if let Some(pulled) = self.queues.get_mut(&queue) {
            pulled.took(now, deliveries.len());
        }
        let events = deliveries.into_iter().map(|delivery| PulledEvent {
            bucket: key.clone(),
            fetched_us: now_us,
            deadline,
            delivery,
        });
        // A lease that takes no time is over at once.
        let is_over = !fetch.hold.is_zero() && self.clock.has_reached(now, deadline);
        if is_over || is_repeat && age >= fetch.hold {
            return self.hand_back(events.collect());
        }
        let takers = fetch.shares.iter().map(|(requester, _)| *requester);
        let left = self.hand_out(events.collect(), takers.collect(), fetch.hold);
        if left.is_empty() {
            return;
        }
        // Some of its callers are gone, or past it: others may want the same.
        let others = self.others(now, queue);
        let left = self.hand_out(left, others, fetch.hold);
        self.hand_back(left);
    }

    /// Gives events to these callers, in their order; returns those that nobody takes.
    fn hand_out(
        &mut self,
        events: Vec<PulledEvent<B>>,
        takers: Vec<RequesterId>,
        hold: Duration,
    ) -> Vec<PulledEvent<B>> {
        let mut takers = takers.into_iter().peekable();
        let mut left = Vec::new();
        for mut event in events {
            loop {
                let Some(taker) = takers.peek().copied() else {
                    left.push(event);
                    break;
                };
                match self.give(taker, hold, event) {
                    None => break,
                    Some(untaken) => event = untaken,
                }
                takers.next(); // it has enough
            }
        }
        left
    }

    /// A poll failed: callers that do not wait get the error.
    fn failed(&mut self, now: Mono, at: usize, kind: ErrorKind) {
        if let Some(bucket) = self.buckets.get_mut(&at) {
            bucket.fails(now, kind, &self.options);
        }
    }

    /// Does what a bucket needs besides fetches: reaps, hands back, and polls as a fallback.
    pub(super) fn state(&mut self, now: Mono, at: usize, out: &mut Vec<PullAction<B>>) {
        let Some(bucket) = self.buckets.get_mut(&at) else {
            return;
        };
        if bucket.is_hot(now, &self.clock) {
            self.scanned.insert(at);
            let many = self.scanned.len();
            bucket.may_be_leased_elsewhere(now, &self.options, many);
        }
        if bucket.settles(now) {
            bucket.is_settling = true;
            let many = bucket.returned.len().min(BATCH_MAX);
            let settlements: Vec<_> = bucket.returned.drain(..many).collect();
            let op = StoreOp::Settle {
                node: self.node,
                settlements: settlements.clone(),
                started: StartMark::default(),
            };
            self.call(now, (at, PullCallKind::Release(settlements)), op, out);
        }
        let lost = self.buckets.get_mut(&at).filter(|it| it.may_poll(now));
        if let Some(fetch) = lost.and_then(|bucket| bucket.lost.take()) {
            self.send_fetch(now, at, fetch, out);
        }
        if self.is_stopping {
            return;
        }
        let Some(bucket) = self.buckets.get_mut(&at) else {
            return;
        };
        if bucket.reaps(now) {
            let (silent, limit) = (Vec::new(), BATCH_MAX);
            let op = StoreOp::Reap { silent, limit };
            self.call(now, (at, PullCallKind::Reap), op, out);
        }
        let Some(bucket) = self.buckets.get(&at) else {
            return;
        };
        if bucket.may_poll(now) && bucket.is_old(now) {
            self.probe(now, at, out);
        }
    }

    /// Touches the buckets and queues whose timers are over.
    pub(super) fn touch_what_is_due(&mut self, now: Mono) {
        let is_due = |(at, _): &(Mono, usize)| *at <= now;
        while let Some((_, bucket)) = self.timers.first().copied().filter(is_due) {
            self.timers.pop_first();
            self.touched.insert(bucket);
        }
        while let Some((_, queue)) = self.queue_timers.first().copied().filter(is_due) {
            self.queue_timers.pop_first();
            self.touched_queues.insert(queue);
            if let Some(pulled) = self.queues.get_mut(&queue) {
                pulled.timer = Mono::MAX;
            }
        }
    }

    /// Sets the timer of a bucket.
    pub(super) fn arm(&mut self, now: Mono, at: usize) {
        let Some(bucket) = self.buckets.get_mut(&at) else {
            return;
        };
        let wakes = bucket.wakes(now, &self.clock, self.is_stopping);
        if wakes != bucket.timer {
            self.timers.remove(&(bucket.timer, at));
            bucket.timer = wakes;
        }
        if wakes != Mono::MAX {
            self.timers.insert((wakes, at));
        }
    }

    /// Sets the timer of a queue that its rate holds back. Fetches in flight may hold it back
    /// instead: their replies look at it again.
    pub(super) fn arm_queue(&mut self, now: Mono, queue: usize) {
        let wakes = self.queues.get(&queue).and_then(|pulled| pulled.wakes());
        if let Some(at) = wakes.filter(|at| *at > now) {
            self.look_at(queue, at);
        }
    }

    /// Looks at a queue at that time, or before: whoever waits on then sets the next timer.
    pub(super) fn look_at(&mut self, queue: usize, at: Mono) {
        let Some(pulled) = self.queues.get_mut(&queue) else {
            return;
        };
        if at < pulled.timer {
            self.queue_timers.remove(&(pulled.timer, queue));
            pulled.timer = at;
            self.queue_timers.insert((at, queue));
        }
    }
}
