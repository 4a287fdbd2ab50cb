//! The node state machine: all its buckets and queues behind one interface.

mod due_calls;
mod members;
mod publish;
mod replies;
mod starts;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::core::bucket_state::BucketState;
use crate::core::members::Members;
use crate::core::op::{Holding, RequestId, StartMark};
use crate::core::options::NodeOptions;
use crate::core::queue_state::QueueState;
use crate::core::settle::SettlePace;
use crate::core::standby::Standby;
use crate::core::step::{Action, CallId, Input};
use crate::event::{BucketKey, EventId, QueueName};
use crate::record::NodeId;
use crate::time::Mono;

/// The state machine of a node.
///
/// [`handle`](Self::handle) takes an input, [`turn`](Self::turn) returns actions, and
/// [`wakes`](Self::wakes) returns when to call `turn` again if no input comes first.
#[derive(Debug)]
pub struct Node<B> {
    id: NodeId,
    options: NodeOptions,
    buckets: Vec<BucketState<B>>,
    places: BTreeMap<BucketKey, usize>,
    queues: Vec<QueueState>,
    members: Members,
    /// When the set of other members last changed.
    joined: Option<Mono>,
    calls: BTreeMap<CallId, Call>,
    next_call: CallId,
    next_request: RequestId,
    timers: BTreeSet<(Mono, usize)>,
    timer_of: Vec<Mono>,
    /// Buckets with changes since the last turn.
    touched: BTreeSet<usize>,
    /// The first bucket of this turn; rotates, so that the first of many does not take all the
    /// room.
    first: usize,
    /// When a due event last found no room.
    starved: Mono,
    /// Queues that have room again.
    roomy: BTreeSet<usize>,
    stopping: bool,
    stopped: bool,
}

/// The credits in use of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Events that are published and have not ended.
    pub outstanding: usize,
    /// Room reserved for the results of fetches in flight.
    pub reserved: usize,
    /// Events in the prefetch buffer, and room reserved for more of them.
    pub ahead: usize,
}

impl Load {
    /// Returns whether no credits are in use.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug)]
struct Call {
    bucket: usize,
    sent: Mono,
    kind: CallKind,
}

#[derive(Debug)]
enum CallKind {
    Move {
        limit: usize,
    },
    Fetch {
        request: RequestId,
        /// A reply with this many events means that there may be more to prefetch.
        full_at: usize,
        /// What the node held before.
        held: Holding,
        /// Handlers may start on this many of the returned leases.
        starts: usize,
    },
    Settle {
        started: StartMark,
    },
    /// A settle without settlements, to announce starts.
    Announce {
        started: StartMark,
    },
    Heartbeat {
        held: Holding,
    },
    Reconcile {
        from: RequestId,
        through: RequestId,
    },
    Reap,
}

impl<B> Node<B> {
    /// Creates a node that serves nothing yet.
    #[must_use]
    pub fn new(id: NodeId, options: NodeOptions) -> Self {
        Self {
            id,
            options,
            buckets: Vec::new(),
            places: BTreeMap::new(),
            queues: Vec::new(),
            members: Members::new(id),
            joined: None,
            calls: BTreeMap::new(),
            next_call: 0,
            next_request: 0,
            timers: BTreeSet::new(),
            timer_of: Vec::new(),
            touched: BTreeSet::new(),
            first: 0,
            starved: Mono::default(),
            roomy: BTreeSet::new(),
            stopping: false,
            stopped: false,
        }
    }

    /// Adds a queue that takes `capacity` events at once and runs `workers` handlers; returns its
    /// index.
    pub fn add_queue(&mut self, name: QueueName, capacity: usize, workers: usize) -> usize {
        let mut queue = QueueState::new(name, capacity, self.options.starts_min);
        queue.resize(capacity, workers);
        queue.nodes = self.members.count(&queue.name);
        self.queues.push(queue);
        self.queues.len() - 1
    }

    /// Adds a bucket of a queue, at any time; returns its index.
    pub fn add_bucket(&mut self, queue: usize, key: BucketKey) -> usize {
        if let Some(known) = self.places.get(&key) {
            return *known;
        }
        let bucket = self.buckets.len();
        self.places.insert(key.clone(), bucket);
        let standby = Standby::new(self.members.rank(&key), &self.options);
        self.buckets
            .push(BucketState::new(key, queue, standby, &self.options));
        self.queues[queue].buckets.push(bucket);
        self.timer_of.push(Mono::MAX);
        self.touched.insert(bucket);
        bucket
    }

    /// Returns the bucket at an index.
    #[must_use]
    pub fn bucket(&self, bucket: usize) -> &BucketKey {
        &self.buckets[bucket].key
    }

    /// Returns the index of the queue of a bucket.
    #[must_use]
    pub fn queue_of(&self, bucket: usize) -> usize {
        self.buckets[bucket].queue
    }

    /// Returns whether due events of a queue wait only for its rate limit, as far as this node
    /// knows.
    #[must_use]
    pub fn waits_for_rate(&self, now: Mono, queue: usize) -> bool {
        let queue = &self.queues[queue];
        let paced = queue.rate.as_ref().is_some_and(|rate| rate.wakes() > now);
        let is_due = |state: &BucketState<B>| state.mover.has_ready() || state.is_overdue(now);
        paced && queue.free() > 0 && queue.buckets.iter().any(|at| is_due(&self.buckets[*at]))
    }

    /// This node's id.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Returns how many events are published and have not ended, in all queues.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.queues.iter().map(|queue| queue.outstanding).sum()
    }

    /// Returns whether this node holds a lease of the event, as far as it knows.
    #[must_use]
    pub fn holds(&self, bucket: usize, id: EventId) -> bool {
        self.buckets[bucket].leases.holdings.has(id)
    }

    /// Returns the credits in use of a queue.
    #[must_use]
    pub fn load(&self, queue: usize) -> Load {
        let queue = &self.queues[queue];
        Load {
            outstanding: queue.outstanding,
            reserved: queue.reserved,
            ahead: queue.ahead,
        }
    }

    /// Returns when to call `turn` if no input comes first; [`Mono::MAX`] is never.
    #[must_use]
    pub fn wakes(&self) -> Mono {
        if !self.touched.is_empty() || !self.roomy.is_empty() {
            return Mono::default();
        }
        let timer = self.timers.first().map_or(Mono::MAX, |(at, _)| *at);
        timer.min(self.members.wakes(&self.options))
    }

    /// Takes an input. Inputs that arrive together are decided together, in the next turn.
    pub fn handle(&mut self, now: Mono, input: Input<B>, out: &mut Vec<Action<B>>) {
        match input {
            Input::Woken { bucket } => {
                self.buckets[bucket].mover.wake(now);
                self.touched.insert(bucket);
            }
            Input::Called { bucket } => {
                let state = &mut self.buckets[bucket];
                if state.standby.handle_call(now, &self.options) {
                    state.mover.poll_soon(now);
                    self.touched.insert(bucket);
                }
            }
            Input::Answered {
                call,
                arrived,
                response,
            } => {
                let call = self.calls.remove(&call);
                if let Some(call) = call.filter(|call| !self.buckets[call.bucket].failed) {
                    self.touched.insert(call.bucket);
                    self.handle_reply(now, &call, arrived.min(now), response, out);
                }
            }
            Input::Ended { bucket, settlement } => {
                let state = &mut self.buckets[bucket];
                state.settler.add(now, settlement);
                let queue = &mut self.queues[state.queue];
                queue.outstanding = queue.outstanding.saturating_sub(1);
                self.roomy.insert(state.queue);
                self.touched.insert(bucket);
            }
            Input::Resized {
                queue,
                capacity,
                workers,
            } => {
                self.queues[queue].resize(capacity, workers);
                self.hand_back_excess(now, queue, out);
            }
            Input::Halted { queue, is_halted } => self.halt(queue, is_halted),
            Input::Rated { queue, rate } => self.rated(now, (queue, rate), out),
            Input::Serve { queue, bucket } => {
                if !self.places.contains_key(&bucket) {
                    let bucket = self.add_bucket(queue, bucket);
                    out.push(Action::Served { bucket });
                }
            }
            Input::MembersSeen { members } => self.members_seen(now, &members, out),
            Input::PollFailed => {
                if self.members.handle_failure(now, &self.options) {
                    self.suspect();
                }
            }
            Input::Stop => {
                self.stopping = true;
                self.hand_back_prefetched(now, |_| true);
            }
        }
    }

    /// Decides what to do now.
    pub fn turn(&mut self, now: Mono, out: &mut Vec<Action<B>>) {
        for queue in std::mem::take(&mut self.roomy) {
            self.touched.extend(&self.queues[queue].buckets);
        }
        while let Some((at, bucket)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, bucket));
            self.timer_of[bucket] = Mono::MAX;
            self.touched.insert(bucket);
        }
        if self.members.wakes(&self.options) <= now {
            self.poll_members(now, out);
        }
        self.publish(now, out);
        let touched = std::mem::take(&mut self.touched);
        self.first = (self.first + 1) % self.buckets.len().max(1);
        for bucket in touched
            .range(self.first..)
            .chain(touched.range(..self.first))
        {
            self.ask(now, *bucket, out);
        }
        if self.stopping && !self.stopped && self.is_done() {
            self.stopped = true;
            out.push(Action::Stopped);
        }
    }

    fn hand_back_prefetched(&mut self, now: Mono, which: impl Fn(&BucketState<B>) -> bool) {
        for (at, state) in self
            .buckets
            .iter_mut()
            .enumerate()
            .filter(|(_, state)| which(state))
        {
            state.release_prefetched(now, RequestId::MAX, &mut self.queues[state.queue]);
            self.touched.insert(at);
        }
    }

    fn is_done(&self) -> bool {
        self.queues.iter().all(|queue| queue.outstanding == 0)
            && self
                .buckets
                .iter()
                .all(|state| (state.settler.len() == 0 && state.fetching.is_none()) || state.failed)
    }

    /// Sends the store calls that a bucket needs now.
    fn ask(&mut self, now: Mono, bucket: usize, out: &mut Vec<Action<B>>) {
        let state = &self.buckets[bucket];
        if state.failed {
            return;
        }
        if self.queues[state.queue].is_halted {
            return self.arm(bucket, Mono::MAX);
        }
        for (kind, op) in self.due_calls(now, bucket) {
            self.next_call += 1;
            self.calls.insert(
                self.next_call,
                Call {
                    bucket,
                    sent: now,
                    kind,
                },
            );
            out.push(Action::Call {
                call: self.next_call,
                bucket,
                op,
            });
        }
        self.set_timer(now, bucket);
    }

    /// Returns how soon finished attempts are settled: while due events wait for room in any queue,
    /// starting them comes first.
    fn pace(&self, now: Mono) -> SettlePace {
        let starved = now.since(self.starved) < self.options.settle_linger * 2;
        match (self.stopping, starved && self.starved > Mono::default()) {
            (true, _) => SettlePace::AtOnce,
            (false, true) => SettlePace::StartsFirst,
            (false, false) => SettlePace::Steady,
        }
    }
}
