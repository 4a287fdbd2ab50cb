//! Store calls: which operations a node sends for a bucket.

use crate::core::bucket_state::BucketPoll;
use crate::core::holdings::Statement;
use crate::core::node::{CallKind, Node};
use crate::core::op::{Fetch, StoreOp};
use crate::core::rate::Rate;
use crate::time::Mono;

impl<B> Node<B> {
    /// Returns the operations to send for a bucket now.
    pub(super) fn due_calls(&mut self, now: Mono, bucket: usize) -> Vec<(CallKind, StoreOp)> {
        let pace = self.pace(now);
        let Self {
            id,
            buckets,
            queues,
            options,
            ..
        } = self;
        let state = &mut buckets[bucket];
        let resting = state.backoff.until > now;
        let mut due_calls = Vec::new();
        if state.leases.wakes() <= now {
            let held = state.leases.beat(now, options);
            due_calls.push((
                CallKind::Heartbeat { held },
                StoreOp::Heartbeat {
                    node: *id,
                    holds: held,
                    started: state.held.acknowledged(),
                },
            ));
        }
        if state.leases.states() <= now && !resting {
            let Statement {
                from,
                through,
                held,
            } = state.leases.state();
            due_calls.push((
                CallKind::Reconcile { from, through },
                StoreOp::Reconcile {
                    node: *id,
                    from,
                    through,
                    held,
                    started: state.held.acknowledged(),
                    limit: options.batch,
                },
            ));
        }
        if state.settles(options, pace) <= now {
            let settlements = state.settler.send(now, options);
            let announced = state.announce(now, &mut queues[state.queue], true);
            let started = announced.unwrap_or_default().max(state.held.acknowledged());
            due_calls.push((
                CallKind::Settle { started },
                StoreOp::Settle {
                    node: *id,
                    settlements,
                    started,
                },
            ));
        }
        match state.next_poll(now, &queues[state.queue], options, self.stopping) {
            Some((at, look)) if at <= now => due_calls.push(self.poll_op(bucket, look)),
            _ => {}
        }
        let Self {
            id,
            buckets,
            queues,
            options,
            ..
        } = self;
        let state = &mut buckets[bucket];
        if !resting && let Some(started) = state.announce_alone(now, &mut queues[state.queue]) {
            due_calls.push((
                CallKind::Announce { started },
                StoreOp::Settle {
                    node: *id,
                    settlements: Vec::new(),
                    started,
                },
            ));
        }
        if state.reaper.wakes() <= now && !resting && !self.stopping {
            let silent = state.reaper.send(now, options);
            due_calls.push((
                CallKind::Reap,
                StoreOp::Reap {
                    silent,
                    limit: options.batch,
                },
            ));
        }
        due_calls
    }

    fn poll_op(&mut self, bucket: usize, look: BucketPoll) -> (CallKind, StoreOp) {
        let Self {
            id,
            buckets,
            queues,
            options,
            ..
        } = self;
        let state = &mut buckets[bucket];
        state.is_polling = true;
        let fetch = match look {
            BucketPoll::MoveDue { is_crowded } => {
                state.mover.start_poll();
                state.standby.start_poll();
                let calls = is_crowded && queues[state.queue].nodes > 1;
                let limit = options.batch;
                return (CallKind::Move { limit }, StoreOp::MoveDue { limit, calls });
            }
            BucketPoll::FetchAgain(fetch) => fetch,
            BucketPoll::Fetch { limit, ahead_limit } => {
                state.mover.start_poll();
                state.standby.start_poll();
                let queue = &mut queues[state.queue];
                let starts = state.starts(queue, limit + ahead_limit);
                queue.reserved += limit;
                queue.ahead += ahead_limit;
                if state.held.announces() {
                    queue.fetched_starts += starts;
                }
                self.next_request += 1;
                let request = self.next_request;
                Fetch {
                    node: *id,
                    request,
                    limit,
                    ahead: state.mover.window(options),
                    ahead_limit,
                    hold: None,
                    starts,
                }
            }
        };
        state.fetching = Some(fetch.clone());
        let kind = CallKind::Fetch {
            request: fetch.request,
            full_at: match fetch.ahead_limit {
                0 => fetch.limit,
                ahead_limit => ahead_limit,
            },
            held: state.leases.holdings.total(),
            starts: fetch.starts,
        };
        (kind, StoreOp::Fetch(fetch))
    }

    /// Sets the timer to the first action that the bucket needs and may take.
    pub(super) fn set_timer(&mut self, now: Mono, bucket: usize) {
        let state = &self.buckets[bucket];
        let queue = &self.queues[state.queue];
        let states = state.leases.states().max(state.backoff.until);
        let mut at = state.leases.wakes().min(states);
        at = at.min(state.settles(&self.options, self.pace(now)));
        if queue.free() > 0 {
            let paced = queue.rate.as_ref().map_or(Mono::default(), Rate::wakes);
            at = at.min(state.next_prefetched_due().max(paced));
        }
        at = at.min(state.calls_alone_at(now, queue).max(state.backoff.until));
        if let Some((look, _)) = state.next_poll(now, queue, &self.options, self.stopping) {
            at = at.min(look);
        }
        if !self.stopping {
            at = at.min(state.reaper.wakes().max(state.backoff.until));
        }
        self.arm(bucket, at);
    }

    pub(super) fn arm(&mut self, bucket: usize, at: Mono) {
        let timer = &mut self.timer_of[bucket];
        if *timer != at {
            self.timers.remove(&(*timer, bucket));
            *timer = at;
            if at < Mono::MAX {
                self.timers.insert((at, bucket));
            }
        }
    }
}
