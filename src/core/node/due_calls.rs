//! Store calls: which operations a node sends for a bucket.

use crate::core::bucket_state::BucketPoll;
use crate::core::holdings::Statement;
use crate::core::node::{CallKind, Node};
use crate::core::op::{Fetch, StoreOp};
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
        let care = &mut buckets[bucket];
        let resting = care.backoff.until > now;
        let mut due_calls = Vec::new();
        if care.leases.wakes() <= now {
            let held = care.leases.beat(now, options);
            due_calls.push((
                CallKind::Heartbeat { held },
                StoreOp::Heartbeat {
                    node: *id,
                    holds: held,
                    started: care.held.acknowledged(),
                },
            ));
        }
        if care.leases.states() <= now && !resting {
            let Statement {
                from,
                through,
                held,
            } = care.leases.state();
            due_calls.push((
                CallKind::Reconcile { from, through },
                StoreOp::Reconcile {
                    node: *id,
                    from,
                    through,
                    held,
                    started: care.held.acknowledged(),
                    limit: options.batch,
                },
            ));
        }
        if care.settles(options, pace) <= now {
            let settlements = care.settler.send(now, options);
            let announced = care.announce(now, &mut queues[care.queue], true);
            let started = announced.unwrap_or_default().max(care.held.acknowledged());
            due_calls.push((
                CallKind::Settle { started },
                StoreOp::Settle {
                    node: *id,
                    settlements,
                    started,
                },
            ));
        }
        match care.look(now, &queues[care.queue], options, self.stopping) {
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
        let care = &mut buckets[bucket];
        if !resting && let Some(started) = care.announce(now, &mut queues[care.queue], false) {
            due_calls.push((
                CallKind::Announce { started },
                StoreOp::Settle {
                    node: *id,
                    settlements: Vec::new(),
                    started,
                },
            ));
        }
        if care.reaper.wakes() <= now && !resting && !self.stopping {
            let silent = care.reaper.send(now, options);
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
        let care = &mut buckets[bucket];
        care.looking = true;
        let fetch = match look {
            BucketPoll::MoveDue { is_crowded } => {
                care.mover.looks();
                care.standby.looks();
                let calls = is_crowded && queues[care.queue].nodes > 1;
                let limit = options.batch;
                return (CallKind::Move { limit }, StoreOp::MoveDue { limit, calls });
            }
            BucketPoll::FetchAgain(fetch) => fetch,
            BucketPoll::Fetch { limit, ahead_limit } => {
                care.mover.looks();
                care.standby.looks();
                let queue = &mut queues[care.queue];
                let starts = care.starts(queue, limit + ahead_limit);
                queue.reserved += limit;
                queue.ahead += ahead_limit;
                if care.held.announces() {
                    queue.fetched_starts += starts;
                }
                self.next_request += 1;
                let request = self.next_request;
                Fetch {
                    node: *id,
                    request,
                    limit,
                    ahead: care.mover.window(options),
                    ahead_limit,
                    hold: None,
                    starts,
                }
            }
        };
        care.fetching = Some(fetch.clone());
        let kind = CallKind::Fetch {
            request: fetch.request,
            full_at: match fetch.ahead_limit {
                0 => fetch.limit,
                ahead_limit => ahead_limit,
            },
            held: care.leases.holdings.total(),
            starts: fetch.starts,
        };
        (kind, StoreOp::Fetch(fetch))
    }
}
