//! A store as the bus calls it: its panics become errors, since a store may be anybody's, and its
//! calls are timed and counted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::core::membership::{MemberInfo, Membership};
use crate::core::op::{Delivery, NewEvent, Response, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, QueueName};
use crate::metrics::StoreCallMetrics;
use crate::panics;
use crate::record::Cursor;
use crate::store::contract::{KnownBuckets, Store, Watcher};
use crate::store::control::{Control, Setting};
use crate::store::damage::{CheckTask, Damage};
use crate::store::durability::Durability;
use crate::store::future::{StoreFuture, panicked};
use crate::store::outbox::{Outbox, OutboxLimit, OutboxPage, OutboxWatcher};
use crate::store::records::RecordTable;
use crate::time::{Clock, Mono, SystemClock};

macro_rules! calls {
    ($($call:ident = $name:literal,)+) => {
        /// The calls that are no operation.
        #[derive(Clone, Copy, Debug)]
        enum Call {
            $($call,)+
        }

        impl Call {
            /// Their names in metrics, by variant.
            const METRICS: &[&str] = &[$($name,)+];
        }
    };
}

calls! {
    PollMembers = "poll_members",
    Controls = "controls",
    ControlOf = "control_of",
    Set = "set",
    Buckets = "buckets",
    BucketsOf = "buckets_of",
    Starting = "starting",
    EraseRecords = "erase_records",
    CheckBucket = "check_bucket",
    CheckStore = "check_store",
    Close = "close",
    Outboxes = "outboxes",
    ReadOutbox = "read_outbox",
    TrimOutbox = "trim_outbox",
}

impl Call {
    /// Its place among all calls, behind the operations.
    fn place(self) -> usize {
        StoreOp::METRICS.len() + self as usize
    }
}

/// A store whose calls do not panic, if it guards, and are counted, if it has a meter. The futures
/// that it returns do not panic either, as those of any store ([`StoreFuture`]).
pub(crate) struct StoreProxy {
    near: Arc<dyn Store>,
    guards: bool,
    is_shared: bool,
    durability: Durability,
    meter: Option<Arc<Meter>>,
}

struct Meter {
    clock: Arc<dyn Clock>,
    calls: Vec<StoreCallMetrics>,
}

/// A call that is dropped after this long without a reply counts as failed.
const UNANSWERED_AFTER: Duration = Duration::from_secs(10);

/// A call in flight. One that is dropped before its reply was cancelled by its caller: its duration
/// is a lower bound and its result unknown. It counts as an error of the store only if the store
/// had time enough to reply.
struct InFlightCall {
    meter: Arc<Meter>,
    place: usize,
    since: Mono,
    /// The result; `None` until the store has replied.
    answered: Option<Option<ErrorKind>>,
}

/// The names of all calls in metrics, by their places.
fn names() -> impl Iterator<Item = &'static str> {
    let others = Call::METRICS.iter().copied();
    StoreOp::METRICS.into_iter().chain(others)
}

impl StoreProxy {
    /// Stands before `near`: with `clock` it counts, by metric handles of the recorder that is
    /// installed now.
    pub(crate) fn new(near: Arc<dyn Store>, guards: bool, clock: Option<&Arc<dyn Clock>>) -> Self {
        let meter = |clock| {
            Arc::new(Meter {
                clock: Arc::clone(clock),
                calls: names().map(StoreCallMetrics::new).collect(),
            })
        };
        Self {
            guards,
            is_shared: near.is_shared(),
            durability: near.durability(),
            meter: clock.map(meter),
            near,
        }
    }

    /// Calls the store; `Err`: the words of a panic.
    fn caught<T>(&self, call: impl FnOnce(&dyn Store) -> T) -> std::result::Result<T, String> {
        if self.guards {
            panics::caught(|| call(&*self.near))
        } else {
            Ok(call(&*self.near))
        }
    }

    /// A call that returns at once.
    fn now<T>(&self, call: impl FnOnce(&dyn Store) -> Result<T>) -> Result<T> {
        self.caught(call)
            .unwrap_or_else(|words| Err(panicked(&words)))
    }

    /// Starts the timer before it makes the call.
    fn timed<T: Send + 'static>(
        &self,
        place: usize,
        call: impl FnOnce(&dyn Store) -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        let start = || {
            self.caught(call)
                .unwrap_or_else(|words| StoreFuture::ready(Err(panicked(&words))))
        };
        let Some(meter) = &self.meter else {
            return start();
        };
        let since = meter.clock.mono();
        let response = start();
        if let Some(answered) = response.peek() {
            meter.ended(place, since, answered.as_ref().err().map(Error::kind));
            return response;
        }
        let mut timed = InFlightCall {
            meter: Arc::clone(meter),
            place,
            since,
            answered: None,
        };
        StoreFuture::new(async move {
            let response = response.await;
            timed.answered(response.as_ref().err());
            response
        })
    }
}

impl Meter {
    /// Counts a call, which has ended, whatever panics of the recorder.
    fn ended(&self, place: usize, since: Mono, failed: Option<ErrorKind>) {
        panics::reported(|| {
            self.calls[place].took(self.clock.mono().since(since));
            if let Some(kind) = failed {
                self.calls[place].failed(kind, 1);
            }
        });
    }
}

impl InFlightCall {
    fn answered(&mut self, failed: Option<&Error>) {
        self.answered = Some(failed.map(Error::kind));
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        let failed = match self.answered {
            Some(failed) => failed,
            None => {
                let waited = self.meter.clock.mono().since(self.since);
                (waited >= UNANSWERED_AFTER).then_some(ErrorKind::TimedOut)
            }
        };
        self.meter.ended(self.place, self.since, failed);
    }
}

impl fmt::Debug for StoreProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.near.fmt(f)
    }
}

impl Store for StoreProxy {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Response> {
        self.timed(op.place(), |near| near.apply(bucket, op))
    }

    fn durability(&self) -> Durability {
        let durability = self.caught(|near| near.durability());
        durability.unwrap_or(self.durability)
    }

    fn push_durably(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Durability,
    ) -> StoreFuture<Response> {
        let push = StoreOp::Push(Vec::new()).place();
        self.timed(push, |near| near.push_durably(bucket, events, wanted))
    }

    /// The machine's time where the store's panics.
    fn now_us(&self) -> u64 {
        let now_us = self.caught(|near| near.now_us());
        now_us.unwrap_or_else(|_| SystemClock::new().wall_us())
    }

    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        self.timed(Call::PollMembers.place(), |near| near.poll_members(me))
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        self.timed(Call::Controls.place(), |near| near.controls())
    }

    fn control_of(&self, queue: &QueueName) -> StoreFuture<Option<Control>> {
        self.timed(Call::ControlOf.place(), |near| near.control_of(queue))
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        self.timed(Call::Set.place(), |near| near.set(queue, setting))
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        self.timed(Call::Buckets.place(), |near| near.buckets())
    }

    fn known_buckets(&self) -> StoreFuture<KnownBuckets> {
        self.timed(Call::Buckets.place(), |near| near.known_buckets())
    }

    fn configured(&self, queues: &BTreeMap<QueueName, u16>, others: u16) {
        let _ = self.caught(|near| near.configured(queues, others)); // a panic changes nothing else
    }

    fn fallback_poll_every(&self) -> Duration {
        self.near.fallback_poll_every()
    }

    fn connections(&self) -> u64 {
        self.near.connections()
    }

    fn buckets_of(&self, queue: &QueueName) -> StoreFuture<KnownBuckets> {
        self.timed(Call::BucketsOf.place(), |near| near.buckets_of(queue))
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> Result<()> {
        self.now(|near| near.watch(watcher))
    }

    /// Counts failures only: it is called for each attempt, and writes to memory at most.
    fn starting(&self, queue: &QueueName, deliveries: &[&Delivery]) -> Result<()> {
        let started = self.now(|near| near.starting(queue, deliveries));
        if let (Some(meter), Err(error)) = (&self.meter, &started) {
            let calls = &meter.calls[Call::Starting.place()];
            panics::reported(|| calls.failed(error.kind(), 1));
        }
        started
    }

    fn records(&self) -> Option<Arc<dyn RecordTable>> {
        self.near.records()
    }

    fn erase_records(&self, places: Vec<Cursor>) -> StoreFuture<bool> {
        self.timed(Call::EraseRecords.place(), |near| {
            near.erase_records(places)
        })
    }

    fn check_bucket(&self, bucket: &BucketKey, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        self.timed(Call::CheckBucket.place(), |near| {
            near.check_bucket(bucket, task)
        })
    }

    fn check_store(&self, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        self.timed(Call::CheckStore.place(), |near| near.check_store(task))
    }

    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        self.timed(Call::Outboxes.place(), |near| near.outboxes())
    }

    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        self.timed(Call::ReadOutbox.place(), |near| {
            near.read_outbox(outbox, after, limit)
        })
    }

    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        self.timed(Call::TrimOutbox.place(), |near| {
            near.trim_outbox(outbox, through)
        })
    }

    fn limit_outboxes(&self, limit: OutboxLimit) -> Result<()> {
        self.now(|near| near.limit_outboxes(limit))
    }

    fn watch_outboxes(&self, watcher: Weak<dyn OutboxWatcher>) -> Result<()> {
        self.now(|near| near.watch_outboxes(watcher))
    }

    fn close(&self) -> StoreFuture<()> {
        self.timed(Call::Close.place(), |near| near.close())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_own_name() {
        let name = |place: usize| names().nth(place);
        assert_eq!(name(StoreOp::Stats.place()), Some("stats"));
        assert_eq!(name(StoreOp::SWEEP.place()), Some("reap"));
        assert_eq!(name(Call::Buckets.place()), Some("buckets"));
        assert_eq!(name(Call::TrimOutbox.place()), names().last());
    }
}
