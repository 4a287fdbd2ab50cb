//! What a node learns from the store.

use crate::core::lease::Leases;
use crate::core::node::{Call, CallKind, Node};
use crate::core::op::{Answer, Reaped, Reply, RequestId};
use crate::core::step::Action;
use crate::error::ErrorKind;
use crate::time::Mono;

impl<B> Node<B> {
    pub(super) fn answered(
        &mut self,
        now: Mono,
        call: &Call,
        answer: Result<Answer<B>, ErrorKind>,
        out: &mut Vec<Action<B>>,
    ) {
        let care = &mut self.buckets[call.bucket];
        match answer {
            Ok(Answer { now_us, reply }) => {
                care.clock.learn(now, now_us);
                care.rest.answered();
                self.replied(now, call, now_us, reply, out);
            }
            Err(kind) => {
                care.rest.failed(now, &self.options);
                match call.kind {
                    CallKind::Fetch { .. } if kind == ErrorKind::LeaseLost => {
                        self.believed_dead(now, call, out);
                        return;
                    }
                    CallKind::Move { .. } => {
                        care.looking = false;
                        care.mover.woken();
                    }
                    CallKind::Fetch { .. } => care.looking = false,
                    CallKind::Settle => care.settler.unanswered(),
                    CallKind::Heartbeat { .. } => care.leases.beaten(now, false, &self.options),
                    CallKind::Reap => care.reaper.unanswered(now, &self.options),
                }
                if matches!(
                    kind,
                    ErrorKind::Closed | ErrorKind::Corrupt | ErrorKind::Invalid
                ) {
                    care.doubted = true;
                    out.push(Action::Doubt {
                        bucket: call.bucket,
                        kind,
                    });
                }
            }
        }
    }

    /// The store gave this node up: what it held is others' now, and the fetch that was told so is
    /// never answered otherwise. The next one is.
    fn believed_dead(&mut self, now: Mono, call: &Call, out: &mut Vec<Action<B>>) {
        let CallKind::Fetch {
            request, reserved, ..
        } = call.kind
        else {
            return;
        };
        let care = &mut self.buckets[call.bucket];
        let queue = &mut self.queues[care.queue];
        let ahead_limit = care.fetching.take().map_or(0, |fetch| fetch.ahead_limit);
        care.looking = false;
        care.mover.woken();
        queue.reserved = queue.reserved.saturating_sub(reserved);
        queue.ahead = queue.ahead.saturating_sub(ahead_limit);
        queue.ahead -= care.release_held(now, request);
        out.push(Action::Lost {
            bucket: call.bucket,
            through: request,
        });
    }

    fn replied(
        &mut self,
        now: Mono,
        call: &Call,
        now_us: u64,
        reply: Reply<B>,
        out: &mut Vec<Action<B>>,
    ) {
        let bucket = call.bucket;
        let care = &mut self.buckets[bucket];
        let queue = &mut self.queues[care.queue];
        let options = &self.options;
        match (&call.kind, reply) {
            (CallKind::Move { limit }, Reply::Moved { moved, next_due }) => {
                care.looking = false;
                let ready =
                    care.mover.has_ready() || moved > 0 || care.last_fetch == Mono::default();
                care.mover.looked(next_due, ready, moved == *limit);
                care.mover.sleeps_until(now + options.sleep_max);
            }
            (
                CallKind::Fetch {
                    request,
                    reserved,
                    limit,
                },
                Reply::Fetched {
                    deliveries,
                    ready,
                    next_due,
                },
            ) => {
                care.looking = false;
                let ahead_limit = care.fetching.take().map_or(0, |fetch| fetch.ahead_limit);
                queue.reserved = queue.reserved.saturating_sub(*reserved);
                queue.ahead = queue.ahead.saturating_sub(ahead_limit) + deliveries.len();
                care.last_fetch = call.sent;
                care.mover
                    .looked(next_due, ready > 0, deliveries.len() >= (*limit).max(1));
                care.mover.sleeps_until(now + options.sleep_max);
                if !deliveries.is_empty() {
                    care.leases
                        .fetched(*request, deliveries.len(), call.sent, options);
                    let until = Leases::fresh_until(call.sent, options);
                    out.push(Action::Fresh { bucket, until });
                }
                care.hold(bucket, now_us, deliveries);
                if self.stopping {
                    queue.ahead -= care.release_held(now, RequestId::MAX);
                }
            }
            (CallKind::Settle, Reply::Settled(accepted)) => {
                care.leases.settled(care.settler.settled());
                self.roomy.insert(care.queue);
                let lost = accepted.iter().filter(|accepted| !**accepted).count();
                if lost > 0 {
                    out.push(Action::Refused { bucket, lost });
                }
            }
            (CallKind::Heartbeat { through }, Reply::Kept(kept)) => {
                care.leases.beaten(now, true, options);
                if kept {
                    let until = Leases::fresh_until(call.sent, options);
                    out.push(Action::Fresh { bucket, until });
                } else {
                    // What was fetched before this heartbeat was sent is another node's now.
                    queue.ahead -= care.release_held(now, *through);
                    out.push(Action::Lost {
                        bucket,
                        through: *through,
                    });
                }
            }
            (CallKind::Reap, Reply::Reaped(reaped)) => self.reaped(now, bucket, &reaped),
            (_, _) => {
                care.doubted = true;
                out.push(Action::Doubt {
                    bucket,
                    kind: ErrorKind::Corrupt,
                });
            }
        }
    }

    fn reaped(&mut self, now: Mono, bucket: usize, reaped: &Reaped) {
        let care = &mut self.buckets[bucket];
        care.reaper.looked(now, self.id, reaped, &self.options);
        care.reaper.deadline(reaped.next_deadline, |deadline| {
            care.clock.mono_at(deadline)
        });
        if reaped.ready > 0 {
            care.mover.woken();
        }
    }
}
