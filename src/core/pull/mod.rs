//! The puller: a state machine that leases events for callers that pull.
//!
//! Callers wait in one queue for each queue of events, in the order of their arrival. For each
//! bucket the puller knows from the last reply what is ready and when the next event is due, and
//! from the store's notifications that there may be more; so a caller that waits costs no call, and
//! one event causes one fetch. Leases of pulled events have a deadline of their own, and the puller
//! reaps them, whoever holds them.

mod bucket;
mod fetches;
mod queue;
mod replies;
mod requests;
mod served;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::bucket::PulledBucket;
use self::queue::PulledQueue;
pub(crate) use self::requests::LeaseOrder;
use self::requests::Requester;
use crate::core::clock::StoreClock;
use crate::core::op::{Delivery, RequestId, Response, Settlement, StoreOp};
use crate::core::step::CallId;
use crate::error::ErrorKind;
use crate::event::{BucketKey, QueueName};
use crate::record::NodeId;
use crate::time::{Mono, Timestamp};

/// The most callers that may wait at once.
pub(crate) const REQUESTS_MAX: usize = 100_000;
/// The most queues that are known at once; beyond it those that nobody pulls from are forgotten at
/// once.
pub(crate) const PULLED_QUEUES_MAX: usize = 50_000;
/// How many queues make room at once when there is none: those that nobody has pulled from for
/// longest, although they may have leases.
const FORGOTTEN_AT_ONCE: usize = PULLED_QUEUES_MAX / 16;
/// The bytes of payloads that a fetch asks for, by the size of those that were fetched before.
const FETCH_BYTES: usize = 16 << 20;
/// The size that a payload is taken to have at least.
const BODY_BYTES_MIN: usize = 64 << 10;
/// The size that a payload of a bucket is taken to have before the first fetch.
const BODY_BYTES_FIRST: usize = 256 << 10;
/// How long callers wait for the reply of a bucket while they have others to turn to, or events.
const PATIENCE: Duration = Duration::from_millis(500);
/// A queue that nobody has pulled from for this long is forgotten.
const IDLE_AFTER: Duration = Duration::from_secs(60);

/// A caller's number, in the order of arrival.
pub(crate) type RequesterId = u64;

/// Times of a puller.
#[derive(Clone, Debug)]
pub(crate) struct PullOptions {
    /// Whether other processes use the store, so that what is known here may be outdated.
    pub(crate) is_shared: bool,
    /// The fallback poll of a bucket.
    pub(crate) poll_every: Duration,
    /// The first backoff after a failed call, and the longest.
    pub(crate) retry: (Duration, Duration),
    /// By how much this process's clock may run faster than the store's.
    pub(crate) drift_ppm: u32,
}

/// What happens to a puller.
#[derive(Debug)]
pub(crate) enum PullInput<B> {
    /// A caller wants events of queues that are served.
    Lease(LeaseOrder),
    /// A caller's wait is over: it gets a reply now.
    Expired(RequesterId),
    /// A caller is gone: it gets no reply.
    Cancelled(RequesterId),
    /// Leased events that their caller has not taken.
    Returned(BucketKey, Vec<Settlement>),
    /// A bucket may have earlier work.
    Woken(BucketKey),
    /// A lease of a bucket was extended: it ends then, perhaps earlier than before.
    Extended(BucketKey, Timestamp),
    /// A store call completed or failed.
    Answered {
        /// The call.
        call: CallId,
        /// The reply.
        response: Result<Response<B>, ErrorKind>,
    },
    /// Pull from a queue, which has at least these buckets.
    Serve {
        /// The queue.
        queue: QueueName,
        /// Its buckets.
        buckets: Vec<BucketKey>,
    },
    /// The runtime settings of a queue.
    Set {
        /// The queue.
        queue: QueueName,
        /// Nothing is leased.
        is_paused: bool,
        /// The most leases per second.
        rate: Option<f64>,
    },
    /// Refuse every caller, and hand back what comes.
    Stop,
}

/// An effect for the driver to carry out.
#[derive(Debug)]
pub(crate) enum PullAction<B> {
    /// Call the store.
    Call {
        /// The number to reply under.
        call: CallId,
        /// The bucket.
        bucket: BucketKey,
        /// The operation.
        op: StoreOp,
    },
    /// Reply to a caller.
    Reply {
        /// The caller.
        requester: RequesterId,
        /// The leased events; none if none was ready.
        leased: Result<Vec<PulledEvent<B>>, ErrorKind>,
    },
}

/// A leased event on its way to a caller.
#[derive(Clone, Debug)]
pub(crate) struct PulledEvent<B> {
    /// The bucket.
    pub(crate) bucket: BucketKey,
    /// When it was leased, by the store's clock, in microseconds since the epoch.
    pub(crate) fetched_us: u64,
    /// When the lease ends.
    pub(crate) deadline: Timestamp,
    /// The event.
    pub(crate) delivery: Delivery<B>,
}

/// A call in flight.
#[derive(Debug)]
struct PullCall {
    bucket: usize,
    sent: Mono,
    kind: PullCallKind,
}

#[derive(Debug)]
enum PullCallKind {
    /// Reads what is ready and what is due next.
    Probe,
    Fetch(PullFetch),
    Reap,
    Release(Vec<Settlement>),
}

/// A fetch and the callers that it is for.
#[derive(Clone, Debug)]
struct PullFetch {
    request: RequestId,
    /// When it was first sent: a repeat leases nothing anew.
    first_sent: Mono,
    hold: Duration,
    ready: usize,
    due: usize,
    /// Who gets what it brings: nobody in particular once they have gone past it.
    shares: Vec<(RequesterId, usize)>,
    /// How many events count for the rate of its queue while it is in flight.
    requested: usize,
}

/// The state machine; see the module.
#[derive(Debug)]
pub(crate) struct Puller<B> {
    node: NodeId,
    options: PullOptions,
    /// Returns the size of a body, in bytes.
    body_len: fn(&B) -> usize,
    clock: StoreClock,
    queues: BTreeMap<usize, PulledQueue>,
    queue_of: BTreeMap<QueueName, usize>,
    buckets: BTreeMap<usize, PulledBucket>,
    bucket_of: BTreeMap<BucketKey, usize>,
    requesters: BTreeMap<RequesterId, Requester<B>>,
    calls: BTreeMap<CallId, PullCall>,
    /// The number of the next call, fetch, queue or bucket.
    next: u64,
    timers: BTreeSet<(Mono, usize)>,
    queue_timers: BTreeSet<(Mono, usize)>,
    /// The buckets that are scanned.
    scanned: BTreeSet<usize>,
    /// Buckets and queues with changes since the last turn.
    touched: BTreeSet<usize>,
    touched_queues: BTreeSet<usize>,
    /// The number of the turn.
    turns: u64,
    /// When idle queues were last forgotten.
    swept_at: Mono,
    is_stopping: bool,
}

impl<B: Clone> Puller<B> {
    /// Creates a puller that serves nothing yet. `node` holds its leases.
    pub(crate) fn new(node: NodeId, options: PullOptions, body_len: fn(&B) -> usize) -> Self {
        Self {
            node,
            body_len,
            clock: StoreClock::new(options.drift_ppm),
            options,
            queues: BTreeMap::new(),
            queue_of: BTreeMap::new(),
            buckets: BTreeMap::new(),
            bucket_of: BTreeMap::new(),
            requesters: BTreeMap::new(),
            calls: BTreeMap::new(),
            next: 1,
            timers: BTreeSet::new(),
            queue_timers: BTreeSet::new(),
            scanned: BTreeSet::new(),
            touched: BTreeSet::new(),
            touched_queues: BTreeSet::new(),
            turns: 0,
            swept_at: Mono::default(),
            is_stopping: false,
        }
    }

    /// Returns whether nothing is left to do after a stop.
    pub(crate) fn is_stopped(&self) -> bool {
        let is_settled = |bucket: &PulledBucket| {
            bucket.returned.is_empty() && !bucket.is_settling && bucket.lost.is_none()
        };
        let is_quiet = |call: &PullCall| matches!(call.kind, PullCallKind::Reap);
        self.is_stopping
            && self.calls.values().all(is_quiet)
            && self.buckets.values().all(is_settled)
    }

    /// Returns whether a queue is served.
    pub(crate) fn serves(&self, queue: &QueueName) -> bool {
        self.queue_of.contains_key(queue)
    }

    /// Returns how many queues are served.
    pub(crate) fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Returns when to call `turn` if no input comes first; [`Mono::MAX`] is never.
    pub(crate) fn wakes(&self) -> Mono {
        if !self.touched.is_empty() || !self.touched_queues.is_empty() {
            return Mono::default();
        }
        let first = |timers: &BTreeSet<(Mono, usize)>| timers.first().map(|(at, _)| *at);
        let next = first(&self.timers)
            .into_iter()
            .chain(first(&self.queue_timers));
        next.min().unwrap_or(Mono::MAX)
    }

    /// Takes an input. Decisions wait for the next [`turn`](Self::turn).
    pub(crate) fn handle(&mut self, now: Mono, input: PullInput<B>, out: &mut Vec<PullAction<B>>) {
        match input {
            PullInput::Lease(order) => self.add_requester(now, &order, out),
            PullInput::Expired(requester) => self.expire(requester, out),
            PullInput::Cancelled(requester) => {
                if let Some(gone) = self.remove(requester) {
                    self.hand_back(gone.got);
                }
            }
            PullInput::Returned(bucket, settlements) => {
                if let Some(at) = self.bucket_of.get(&bucket) {
                    self.give_back(*at, settlements);
                }
            }
            PullInput::Woken(bucket) => {
                if let Some(at) = self.bucket_of.get(&bucket).copied()
                    && let Some(bucket) = self.buckets.get_mut(&at)
                {
                    bucket.wake();
                    self.touched.insert(at);
                }
            }
            PullInput::Extended(bucket, deadline) => {
                if let Some(at) = self.bucket_of.get(&bucket).copied()
                    && let Some(bucket) = self.buckets.get_mut(&at)
                {
                    bucket.leased(deadline, &self.clock);
                    self.touched.insert(at);
                }
            }
            PullInput::Answered { call, response } => {
                if let Some(call) = self.calls.remove(&call) {
                    self.touched.insert(call.bucket);
                    self.handle_reply(now, call, response);
                }
            }
            PullInput::Serve { queue, buckets } => self.serve(now, queue, buckets),
            PullInput::Set {
                queue,
                is_paused,
                rate,
            } => {
                if let Some(at) = self.queue_of.get(&queue)
                    && let Some(queue) = self.queues.get_mut(at)
                {
                    queue.set(now, is_paused, rate);
                    self.touched_queues.insert(*at);
                }
            }
            PullInput::Stop => self.stop(out),
        }
    }

    /// Decides what to do now.
    pub(crate) fn turn(&mut self, now: Mono, out: &mut Vec<PullAction<B>>) {
        self.turns += 1;
        if now.since(self.swept_at) >= IDLE_AFTER {
            self.swept_at = now;
            self.forget_idle(now, IDLE_AFTER);
        }
        self.touch_what_is_due(now);
        let buckets = std::mem::take(&mut self.touched);
        for at in &buckets {
            let queue = self.buckets.get(at).map(|bucket| bucket.queue);
            self.touched_queues.extend(queue);
            self.go_past(now, *at);
        }
        let mut queues = std::mem::take(&mut self.touched_queues);
        self.add_followers(&mut queues);
        for queue in &queues {
            self.fetch_for(now, *queue, out);
        }
        let unresolved: BTreeSet<RequesterId> = queues
            .iter()
            .filter_map(|at| self.queues.get(at))
            .flat_map(|queue| queue.unresolved.iter().copied())
            .collect();
        for requester in unresolved {
            self.resolve(now, requester, out);
        }
        for at in buckets {
            self.state(now, at, out);
            self.arm(now, at);
        }
    }

    /// Adds the queues that callers of these want events of next, and next after that.
    fn add_followers(&self, queues: &mut BTreeSet<usize>) {
        let mut new: Vec<usize> = queues.iter().copied().collect();
        while let Some(at) = new.pop() {
            let followers = self.queues.get(&at).map(|queue| queue.followers.keys());
            let followers = followers.into_iter().flatten().copied();
            new.extend(followers.filter(|at| queues.insert(*at)));
        }
    }

    /// Sends a call about a bucket.
    fn call(
        &mut self,
        now: Mono,
        (at, kind): (usize, PullCallKind),
        op: StoreOp,
        out: &mut Vec<PullAction<B>>,
    ) {
        let call = self.number();
        let Some(to) = self.buckets.get_mut(&at) else {
            return;
        };
        if matches!(kind, PullCallKind::Fetch(_)) {
            to.fetching = Some(call);
        }
        let bucket = to.key.clone();
        out.push(PullAction::Call { call, bucket, op });
        let (bucket, sent) = (at, now);
        self.calls.insert(call, PullCall { bucket, sent, kind });
        self.touched.insert(at);
    }

    /// Returns the next number, for a call or a fetch.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the next index of a queue or bucket.
    fn index(&mut self) -> usize {
        usize::try_from(self.number()).unwrap_or(usize::MAX)
    }
}
