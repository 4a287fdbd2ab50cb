//! Handling of store replies.

use std::time::Duration;

use crate::core::mover::Waiting;
use crate::core::node::{Call, CallKind, Node};
use crate::core::op::{
    FetchReport, HeartbeatReport, MoveReport, Reply, RequestId, Response, Settlement, StartMark,
};
use crate::core::step::Action;
use crate::error::ErrorKind;
use crate::time::{Mono, Timestamp};

impl<B> Node<B> {
    pub(super) fn handle_reply(
        &mut self,
        now: Mono,
        call: &Call,
        arrived: Mono,
        response: Result<Response<B>, ErrorKind>,
        out: &mut Vec<Action<B>>,
    ) {
        let response = response.and_then(|response| {
            if call.kind.is_answered_by(&response.reply) {
                Ok(response)
            } else {
                Err(ErrorKind::Corrupt)
            }
        });
        let state = &mut self.buckets[call.bucket];
        let queue = &mut self.queues[state.queue];
        match response {
            Ok(Response { now_us, reply }) => {
                state.clock.learn(call.sent, arrived, now_us);
                state.backoff.reset();
                self.replied(now, call, now_us, reply, out);
            }
            Err(kind) => {
                state.backoff.extend(now, kind, &self.options);
                match call.kind {
                    CallKind::Move { .. } => {
                        state.is_polling = false;
                        state.mover.wake(now);
                    }
                    CallKind::Fetch { request, .. } if kind == ErrorKind::LeaseLost => {
                        // This node was reaped. The request stays refused for ever, and everything
                        // fetched before belongs to other nodes now.
                        state.fetch_over(queue);
                        state.mover.wake(now);
                        self.roomy.insert(state.queue);
                        state.release_prefetched(now, request, queue);
                        out.push(Action::Lost {
                            bucket: call.bucket,
                            through: request,
                            is_certain: true,
                        });
                    }
                    CallKind::Fetch { .. } => state.is_polling = false,
                    CallKind::Settle { .. } => state.settler.handle_failure(),
                    CallKind::Announce { .. } => state.is_asking = false,
                    CallKind::Heartbeat { .. } => state.leases.handle_failure(now, &self.options),
                    CallKind::Reconcile { from, .. } => {
                        state.leases.unstated(now, from, &self.options);
                    }
                    CallKind::Reap => state.reaper.fail_scan(now, &self.options),
                }
                if let CallKind::Settle { started } | CallKind::Announce { started } = call.kind {
                    self.announced(call.bucket, started, false);
                }
                let state = &mut self.buckets[call.bucket];
                let queue = &mut self.queues[state.queue];
                // Only this error is permanent; any other may be over soon.
                if kind == ErrorKind::Closed {
                    state.fail(queue);
                    self.roomy.insert(state.queue);
                    out.push(Action::StoreFailed {
                        bucket: call.bucket,
                        kind,
                    });
                }
            }
        }
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
        let each = Duration::from_millis(self.buckets.len() as u64);
        let blind_every = self.options.blind_every.max(each);
        let state = &mut self.buckets[bucket];
        let queue = &mut self.queues[state.queue];
        let options = &self.options;
        let net = if self.members.is_blind() {
            options.blind_every
        } else {
            options.sleep_max
        };
        // A due time, counted from this reply. Overdue ones stay in the past, so that a non-owner's
        // delay counts from the due time and not anew from each poll.
        let reckon = |due: Option<Timestamp>| {
            due.map_or(Mono::MAX, |due| match due.as_micros().checked_sub(now_us) {
                Some(left_us) => now + Duration::from_micros(left_us),
                None => now - Duration::from_micros(now_us - due.as_micros()),
            })
        };
        match (&call.kind, reply) {
            (
                CallKind::Move { limit },
                Reply::Moved(MoveReport {
                    moved,
                    ready,
                    next_due,
                    aside: _,
                }),
            ) => {
                state.is_polling = false;
                let next = now + options.sleep_max;
                let waiting = Waiting {
                    next_due: reckon(next_due),
                    ready: ready > 0,
                    full: moved == *limit,
                    crowd: false,
                };
                state.mover.finish_poll(now, waiting, next);
                match ready {
                    0 => state.standby.finish_poll(false, options, net),
                    _ => state.crowded_until = now + options.non_owner_delay,
                }
            }
            (
                CallKind::Fetch {
                    request,
                    full_at,
                    held,
                    starts,
                },
                Reply::Fetched(FetchReport {
                    deliveries,
                    ready,
                    next_due,
                    crowd_due,
                    full,
                    holding,
                    aside: _,
                }),
            ) => {
                let window = queue.window.room(queue.startable());
                if queue.room() == 0 || window == 0 || !queue.is_low() {
                    self.roomy.insert(state.queue); // the other buckets waited for this reply
                }
                state.fetch_over(queue);
                queue.ahead += deliveries.len();
                state.last_fetch = call.sent;
                let next = now + options.sleep_max;
                let waiting = Waiting {
                    next_due: reckon(next_due),
                    ready: ready > 0,
                    full: full || deliveries.len() >= (*full_at).max(1),
                    // A fetch that its bytes have ended brings events too large to buffer many.
                    crowd: !full && crowd_due.is_some(),
                };
                state.mover.finish_poll(now, waiting, next);
                state
                    .standby
                    .finish_poll(!deliveries.is_empty(), options, net);
                // A repeat is the last fetch that the store knows of. But if it has nothing more than
                // the repeat brings, nothing that came before stands.
                let has_no_other = holding.last >= *request && holding.leases <= deliveries.len();
                if held.leases > 0 && (holding.last < held.last || has_no_other) {
                    state.forgotten(bucket, now, held.last, queue, out);
                }
                if !deliveries.is_empty() {
                    state.renew(bucket, (now, call.sent), queue, options, out);
                    state.leases.fetched(call.sent, options);
                }
                if !deliveries.is_empty() && *starts > 0 && state.held.announces() {
                    state.held.acknowledge(StartMark {
                        request: *request,
                        leases: *starts,
                    });
                    queue.window.acknowledged();
                }
                let brought = deliveries.len();
                let ids = deliveries.iter().map(|delivery| delivery.id).collect();
                state.leases.compare_fetched(now, *held, holding, brought);
                state.leases.holdings.fetched(*request, ids);
                state.hold(bucket, now_us, deliveries);
                state.count_held(queue);
                if self.stopping || queue.is_beyond_need() {
                    state.release_prefetched(now, RequestId::MAX, queue);
                }
            }
            (CallKind::Announce { started }, Reply::Settled(_)) => {
                state.is_asking = false;
                self.announced(bucket, *started, true);
            }
            (CallKind::Settle { started }, Reply::Settled(accepted)) => {
                for settlement in state.settler.settled() {
                    let Settlement { id, request, .. } = settlement;
                    state.leases.holdings.ended(request, id);
                }
                self.roomy.insert(state.queue);
                let lost = accepted.iter().filter(|accepted| !**accepted).count();
                if lost > 0 {
                    out.push(Action::Refused { bucket, lost });
                }
                self.announced(bucket, *started, true);
            }
            (
                CallKind::Heartbeat { held },
                Reply::Heartbeat(HeartbeatReport { stands, holding }),
            ) => {
                state.leases.beaten(call.sent);
                if stands && held.leases > 0 && holding.last < held.last {
                    state.forgotten(bucket, now, held.last, queue, out);
                }
                state.leases.compare(now, *held, holding);
                if stands {
                    state.renew(bucket, (now, call.sent), queue, options, out);
                } else {
                    // Everything fetched before this heartbeat was sent belongs to other nodes now.
                    let through = held.last;
                    state.release_prefetched(now, through, queue);
                    out.push(Action::Lost {
                        bucket,
                        through,
                        is_certain: holding.leases > 0, // they are being taken
                    });
                }
            }
            (CallKind::Reconcile { from, through }, Reply::Reaped(reaped)) => {
                state.leases.stated(now, (*from, *through), reaped.more);
                if reaped.ready > 0 {
                    state.mover.poll_at_once();
                }
            }
            (CallKind::Reap, Reply::Reaped(reaped)) => {
                state.reaper.finish_scan(
                    now,
                    self.id,
                    &reaped,
                    &self.members,
                    (options, blind_every),
                );
                state.reaper.deadline(reckon(reaped.next_deadline));
                let is_holder = reaped.holders.iter().any(|(node, _)| *node == self.id);
                if is_holder && state.leases.holdings.len() == 0 && state.fetching.is_none() {
                    state.leases.differs(now); // it may only have been so at the scan
                }
                if reaped.ready > 0 {
                    state.mover.poll_at_once();
                }
            }
            (_, _) => {} // no call has such a reply
        }
    }
}

impl CallKind {
    fn is_answered_by<B>(&self, reply: &Reply<B>) -> bool {
        matches!(
            (self, reply),
            (Self::Move { .. }, Reply::Moved(MoveReport { .. }))
                | (Self::Fetch { .. }, Reply::Fetched(FetchReport { .. }))
                | (
                    Self::Settle { .. } | Self::Announce { .. },
                    Reply::Settled(_)
                )
                | (
                    Self::Heartbeat { .. },
                    Reply::Heartbeat(HeartbeatReport { .. })
                )
                | (Self::Reap | Self::Reconcile { .. }, Reply::Reaped(_))
        )
    }
}
