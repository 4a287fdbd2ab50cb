//! A store decorator that times and counts each call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::core::membership::{MemberInfo, Membership};
use crate::core::op::{Answer, Delivery, NewEvent, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, QueueName};
use crate::metrics::StoreCallMetrics;
use crate::store::contract::{KnownBuckets, Store, Watcher};
use crate::store::control::{Control, Setting};
use crate::store::damage::{CheckTask, Damage};
use crate::store::durability::Durability;
use crate::store::future::StoreFuture;
use crate::store::outbox::{Outbox, OutboxLimit, OutboxPage, OutboxWatcher};
use crate::store::records::RecordTable;
use crate::time::{Clock, Mono};

/// The store operations, as metrics name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Push,
    Move,
    Fetch,
    Settle,
    Heartbeat,
    Reconcile,
    Extend,
    Reap,
    Cancel,
    Reschedule,
    Update,
    Rewrite,
    Get,
    Peek,
    ReadDead,
    Revive,
    Drop,
    Stats,
    Forecast,
    RollCall,
    Controls,
    Set,
    Buckets,
    Starting,
    Outboxes,
    ReadOutbox,
    TrimOutbox,
}

impl Op {
    /// The metric labels, indexed by variant.
    const NAMES: [&'static str; 27] = [
        "push",
        "move",
        "fetch",
        "settle",
        "heartbeat",
        "reconcile",
        "extend",
        "reap",
        "cancel",
        "reschedule",
        "update",
        "rewrite",
        "get",
        "peek",
        "read_dead",
        "revive",
        "drop",
        "stats",
        "forecast",
        "poll_members",
        "controls",
        "set",
        "buckets",
        "starting",
        "outboxes",
        "read_outbox",
        "trim_outbox",
    ];

    fn of(op: &StoreOp) -> Self {
        match op {
            StoreOp::Push(_) => Self::Push,
            StoreOp::MoveDue { .. } => Self::Move,
            StoreOp::Fetch(_) => Self::Fetch,
            StoreOp::Settle { .. } => Self::Settle,
            StoreOp::Heartbeat { .. } => Self::Heartbeat,
            StoreOp::Reconcile { .. } => Self::Reconcile,
            StoreOp::Extend { .. } => Self::Extend,
            StoreOp::Reap { .. } => Self::Reap,
            StoreOp::Cancel { .. } => Self::Cancel,
            StoreOp::Reschedule { .. } => Self::Reschedule,
            StoreOp::Update { .. } => Self::Update,
            StoreOp::Rewrite(_) => Self::Rewrite,
            StoreOp::Get { .. } => Self::Get,
            StoreOp::Peek { .. } => Self::Peek,
            StoreOp::ReadDead { .. } => Self::ReadDead,
            StoreOp::Revive { .. } | StoreOp::EditAndRevive(_) => Self::Revive,
            StoreOp::Drop { .. } => Self::Drop,
            StoreOp::Stats => Self::Stats,
            StoreOp::Forecast { .. } => Self::Forecast,
        }
    }
}

/// A store that times and counts the calls of another one.
pub(crate) struct Metered {
    near: Arc<dyn Store>,
    meter: Arc<Meter>,
}

struct Meter {
    clock: Arc<dyn Clock>,
    calls: [StoreCallMetrics; Op::NAMES.len()],
}

/// A call that is dropped after this long without a reply counts as failed.
const UNANSWERED_AFTER: Duration = Duration::from_secs(10);

/// A call in flight. One that is dropped before its reply was cancelled by its caller: its duration
/// is a lower bound and its result unknown. It counts as an error of the store only if the store
/// had time enough to reply.
struct InFlightCall {
    meter: Arc<Meter>,
    op: Op,
    since: Mono,
    /// The result; `None` until the store has replied.
    answered: Option<Option<ErrorKind>>,
}

impl Metered {
    /// Wraps `near`, with metric handles of the recorder that is installed now.
    pub(crate) fn new(near: Arc<dyn Store>, clock: &Arc<dyn Clock>) -> Self {
        let meter = Arc::new(Meter {
            clock: Arc::clone(clock),
            calls: Op::NAMES.map(StoreCallMetrics::new),
        });
        Self { near, meter }
    }

    /// Starts the timer before it makes the call.
    fn timed<T: Send + 'static>(
        &self,
        op: Op,
        call: impl FnOnce(&dyn Store) -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        let meter = &self.meter;
        let since = meter.clock.mono();
        let answer = call(&*self.near);
        if let Some(answered) = answer.peek() {
            meter.ended(op, since, answered.as_ref().err().map(Error::kind));
            return answer;
        }
        let mut timed = InFlightCall {
            meter: Arc::clone(meter),
            op,
            since,
            answered: None,
        };
        StoreFuture::new(async move {
            let answer = answer.await;
            timed.answered(answer.as_ref().err());
            answer
        })
    }
}

impl Meter {
    fn ended(&self, op: Op, since: Mono, failed: Option<ErrorKind>) {
        let calls = &self.calls[op as usize];
        calls.took(self.clock.mono().since(since));
        if let Some(kind) = failed {
            calls.failed(kind, 1);
        }
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
        self.meter.ended(self.op, self.since, failed);
    }
}

impl fmt::Debug for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.near.fmt(f)
    }
}

impl Store for Metered {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Answer> {
        self.timed(Op::of(&op), |near| near.apply(bucket, op))
    }

    fn durability(&self) -> Durability {
        self.near.durability()
    }

    fn push_durably(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Durability,
    ) -> StoreFuture<Answer> {
        self.timed(Op::Push, |near| near.push_durably(bucket, events, wanted))
    }

    fn now_us(&self) -> u64 {
        self.near.now_us()
    }

    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        self.timed(Op::RollCall, |near| near.poll_members(me))
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        self.timed(Op::Controls, |near| near.controls())
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        self.timed(Op::Set, |near| near.set(queue, setting))
    }

    fn is_shared(&self) -> bool {
        self.near.is_shared()
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        self.timed(Op::Buckets, |near| near.buckets())
    }

    fn known_buckets(&self) -> StoreFuture<KnownBuckets> {
        self.timed(Op::Buckets, |near| near.known_buckets())
    }

    fn configured(&self, queues: &BTreeMap<QueueName, u16>, others: u16) {
        self.near.configured(queues, others);
    }

    fn fallback_poll_every(&self) -> Duration {
        self.near.fallback_poll_every()
    }

    fn buckets_of(&self, queue: &QueueName) -> StoreFuture<KnownBuckets> {
        self.near.buckets_of(queue)
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> Result<()> {
        self.near.watch(watcher)
    }

    /// Counts failures only: it is called for each attempt, and writes to memory at most.
    fn starting(&self, queue: &QueueName, deliveries: &[&Delivery]) -> Result<()> {
        let count = |error: Error| {
            self.meter.calls[Op::Starting as usize].failed(error.kind(), 1);
            error
        };
        self.near.starting(queue, deliveries).map_err(count)
    }

    fn records(&self) -> Option<Arc<dyn RecordTable>> {
        self.near.records()
    }

    fn check_bucket(&self, bucket: &BucketKey, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        self.near.check_bucket(bucket, task)
    }

    fn check_store(&self, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        self.near.check_store(task)
    }

    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        self.timed(Op::Outboxes, |near| near.outboxes())
    }

    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        self.timed(Op::ReadOutbox, |near| {
            near.read_outbox(outbox, after, limit)
        })
    }

    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        self.timed(Op::TrimOutbox, |near| near.trim_outbox(outbox, through))
    }

    fn limit_outboxes(&self, limit: OutboxLimit) -> Result<()> {
        self.near.limit_outboxes(limit)
    }

    fn watch_outboxes(&self, watcher: Weak<dyn OutboxWatcher>) -> Result<()> {
        self.near.watch_outboxes(watcher)
    }

    fn close(&self) -> StoreFuture<()> {
        self.near.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_own_name() {
        assert_eq!(Op::NAMES[Op::of(&StoreOp::Stats) as usize], "stats");
        assert_eq!(Op::NAMES[Op::Buckets as usize], "buckets");
        assert_eq!(Op::NAMES[Op::TrimOutbox as usize], "trim_outbox");
        assert_eq!(Op::NAMES.len(), Op::TrimOutbox as usize + 1);
    }
}
