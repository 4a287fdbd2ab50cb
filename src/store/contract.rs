//! The store trait, and the contract of every store.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::core::membership::{MemberInfo, Membership};
use crate::core::op::{Delivery, NewEvent, Response, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketKey, QueueName};
use crate::record::Cursor;
use crate::store::control::{Control, Setting};
use crate::store::damage::{CheckTask, Damage};
use crate::store::durability::Durability;
use crate::store::future::StoreFuture;
use crate::store::outbox::{self, Outbox, OutboxLimit, OutboxPage, OutboxWatcher};
use crate::store::records::RecordTable;

/// The fallback poll of a store that says nothing else.
pub(super) const FALLBACK_POLL_EVERY: Duration = Duration::from_secs(30);

/// The durable side of the bus: it holds events until they are handled.
///
/// A store is anything that passes the contract suite of the crate `duly-conformance`, which tests
/// what this page states.
///
/// # The contract
///
/// **Operations are atomic.** [`apply`](Self::apply) is atomic on its bucket: another operation
/// sees all of it or nothing. Operations on one bucket are serialised.
///
/// **A reply is definite.** `Ok` means that it happened, and for a push, a settle and every
/// administrative change that it is as durable as [`durability`](Self::durability) says. An error
/// of kind [`Unknown`] means that it may have happened. Any other error means that nothing
/// happened.
///
/// **Every operation is idempotent.** The same push, fetch, settle, heartbeat or reap, repeated
/// after an `Unknown`, has the effect of one.
///
/// **The clock is the store's.** Due times and deadlines are compared with it alone; it never goes
/// back within a bucket. No event is leased before it is due, except for prefetch, when a fetch
/// requests it, and then the delivery carries the due time.
///
/// **No event is lost.** An accepted event is in exactly one state at any time. It leaves the store
/// only by ack, discard, cancel, expiry or an operator's drop, and each of these writes a record in
/// the same step.
///
/// **A lease is exclusive.** From fetch to settle an event belongs to one node, under the number of
/// the fetch that leased it. A settle under any other number is refused. A lease ends early only by
/// a reap, which needs the node's last heartbeat number, so a node with a newer heartbeat is
/// spared. A fetch that leases anything is a heartbeat as well. A node that was reaped is notified
/// before it gets more: while it is reaped, and once after, its fetch fails with [`LeaseLost`].
/// With each heartbeat and fetch the store returns what the node holds, and takes back what the
/// node reports that it does not hold. A fetch with a number that is not greater than the node's
/// last one leases nothing: it returns what is still held under that number.
///
/// **Attempts count once.** A retry, a bury and a reap count the attempt; a release and a snooze do
/// not. Nor does a reap of a lease on which its node had announced no start: the event is handed
/// back, without a record. An event without attempts left becomes a dead letter, even if a retry is
/// requested.
///
/// **A panic is an error.** A bus that calls a store takes a panic of it for an error of kind
/// [`Unknown`], and repeats the call.
///
/// **Everything is bounded.** No operation carries or returns more than
/// [`BATCH_MAX`](crate::store::operation::BATCH_MAX) events, nor much more than
/// [`BATCH_BYTES`](crate::store::operation::BATCH_BYTES) of payloads, except for a single event of any
/// size.
///
/// [`Unknown`]: crate::ErrorKind::Unknown
/// [`LeaseLost`]: crate::ErrorKind::LeaseLost
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Applies one operation to one bucket, which need not exist yet. Only a push makes a bucket
    /// exist: whatever reads or changes events leaves nothing behind in one that has none.
    ///
    /// An operation that needs neither disk nor network is done when this returns, and the future
    /// is ready at once; the mover relies on it for punctuality, not for correctness.
    ///
    /// # Errors
    ///
    /// As in the contract above.
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Response>;

    /// Returns what a push that returned `Ok` survives.
    fn durability(&self) -> Durability;

    /// Pushes, and returns only once the events are as durable as `wanted`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) when the store can never be so durable; nothing was
    /// pushed. [`Unknown`](crate::ErrorKind::Unknown) when that durability was not reached: the
    /// push may have happened, and pushing the same ids again is safe. Otherwise as
    /// [`apply`](Self::apply).
    fn push_durably(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Durability,
    ) -> StoreFuture<Response> {
        let reaches = self.durability();
        if wanted > reaches {
            let refused = Error::invalid(format!(
                "a push of durability {wanted:?} was requested; this store offers {reaches:?}"
            ));
            return StoreFuture::ready(Err(refused));
        }
        self.apply(bucket, StoreOp::Push(events))
    }

    /// Returns the store's time, as far as this process knows it, in microseconds since the epoch.
    /// Ids and expiries are made from it, so that producers with wrong clocks agree with others.
    fn now_us(&self) -> u64;

    /// Announces that a node is alive, and returns the other members.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached.
    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        StoreFuture::ready(Ok(Membership::alone(&me)))
    }

    /// Returns the runtime settings of all queues.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        StoreFuture::ready(Ok(BTreeMap::new()))
    }

    /// Returns the runtime settings of a queue, if it has any. Default: picked from all.
    ///
    /// # Errors
    ///
    /// As [`controls`](Self::controls).
    fn control_of(&self, queue: &QueueName) -> StoreFuture<Option<Control>> {
        let (all, queue) = (self.controls(), queue.clone());
        StoreFuture::new(async move { Ok(all.await?.remove(&queue)) })
    }

    /// Changes one runtime setting of a queue, for every node, until it is changed again.
    ///
    /// # Errors
    ///
    /// When the store cannot be written; a store without settings returns
    /// [`Invalid`](crate::ErrorKind::Invalid); [`Full`](crate::ErrorKind::Full) for a queue without
    /// settings where 10,000 others have some.
    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        let refused = Error::invalid(format!(
            "this store keeps no settings; {setting:?} of queue {queue} was not set"
        ));
        StoreFuture::ready(Err(refused))
    }

    /// Returns whether nodes in other processes may use the same events, so that silent ones must
    /// be detected.
    fn is_shared(&self) -> bool;

    /// Returns every bucket that may hold events, including those of earlier queues and bucket
    /// counts.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn buckets(&self) -> StoreFuture<Vec<BucketKey>>;

    /// Returns the known buckets of a queue, as [`known_buckets`](Self::known_buckets) does. Default:
    /// picked from all.
    ///
    /// # Errors
    ///
    /// As [`known_buckets`](Self::known_buckets).
    fn buckets_of(&self, queue: &QueueName) -> StoreFuture<KnownBuckets> {
        let (all, queue) = (self.known_buckets(), queue.clone());
        StoreFuture::new(async move {
            let mut known = all.await?;
            known.buckets.retain(|bucket| bucket.queue == queue);
            Ok(known)
        })
    }

    /// Returns the known buckets, for administrative queries, where a partial result is better than
    /// none. If a shared store cannot list all of them now, it returns those that it knows of, and
    /// why there may be others. Default: all of them.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, and no bucket is known.
    fn known_buckets(&self) -> StoreFuture<KnownBuckets> {
        let all = self.buckets();
        StoreFuture::new(async move { Ok(KnownBuckets::all(all.await?)) })
    }

    /// Passes on the configured number of buckets of each queue, and of any other queue: each
    /// consumer of a queue serves at least that many of its buckets. A store that registers buckets
    /// can accept a push to one of them while its registry is unavailable. Default: does nothing.
    fn configured(&self, queues: &BTreeMap<QueueName, u16>, others: u16) {
        let _ = (queues, others);
    }

    /// Returns the interval of the fallback poll: how long a bucket may be left alone in which
    /// nothing is known to be due and for which no notification has come. Covers notifications that
    /// get lost. Default: 30 s.
    fn fallback_poll_every(&self) -> Duration {
        FALLBACK_POLL_EVERY
    }

    /// Counts the connections to the servers so far: on another one a server may lack what was accepted
    /// on the last, after a failover. Default: 0, for a store that loses nothing of what it accepted.
    fn connections(&self) -> u64 {
        0
    }

    /// Registers `watcher`, to be notified when a bucket's next work becomes earlier. The store does
    /// not keep it alive, and forgets it when it is gone.
    ///
    /// # Errors
    ///
    /// [`Full`](crate::ErrorKind::Full) when as many as the store takes are alive: none of them is
    /// dropped for a new one.
    fn watch(&self, watcher: Weak<dyn Watcher>) -> Result<()>;

    /// Records, in a way that outlives the process, that the handlers of these deliveries start
    /// now.
    ///
    /// Workers call it before the first line of a handler runs, so it must be quick. A store that
    /// counts every lease anyway does nothing.
    ///
    /// # Errors
    ///
    /// When the record could not be written; the handlers are then not started.
    fn starting(&self, queue: &QueueName, deliveries: &[&Delivery]) -> Result<()> {
        let _ = (queue, deliveries);
        Ok(())
    }

    /// Returns the records of a store that queries read itself; such a store has no outboxes.
    /// Default: `None`, a store with outboxes.
    fn records(&self) -> Option<Arc<dyn RecordTable>> {
        None
    }

    /// Erases the payloads and the error texts of the records at these places, at most 1,000, where
    /// the store keeps them, in its own [table](Self::records) or in an outbox; those that are not
    /// there are left out. Returns whether it can. From the first call on a store in a file overwrites
    /// what it deletes. Default: `false`, a store that erases nothing of the records in its outboxes.
    ///
    /// # Errors
    ///
    /// When the store cannot be written; erasing the same again is safe.
    fn erase_records(&self, places: Vec<Cursor>) -> StoreFuture<bool> {
        drop(places);
        StoreFuture::ready(Ok(false))
    }

    /// Looks at a bucket for damage, in steps that each block it for some milliseconds at most, and
    /// repairs it if the task says so. Damage is reported only if it is there at one instant, so a
    /// healthy bucket in use has none. Default: none, for a store that
    /// [`check_store`](Self::check_store) checks as a whole.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached.
    fn check_bucket(&self, bucket: &BucketKey, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        let _ = (bucket, task);
        StoreFuture::ready(Ok(Vec::new()))
    }

    /// Looks for damage of the store as a whole, and at settings of its servers that weaken what it
    /// promises. Default: [`Invalid`](crate::ErrorKind::Invalid), a store that cannot be checked.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn check_store(&self, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        let _ = task;
        let refused = Error::invalid(format!("{self:?} cannot be checked for damage"));
        StoreFuture::ready(Err(refused))
    }

    /// Returns every outbox that may hold records. Default: none.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        StoreFuture::ready(Ok(Vec::new()))
    }

    /// Reads the records of an outbox with numbers greater than `after`, in the order of writing;
    /// at most `limit` or [`OUTBOX_BATCH_MAX`](crate::store::OUTBOX_BATCH_MAX) of them, and perhaps
    /// fewer than there are. With a `limit` of 0 it returns no records, but all numbers of the page.
    /// [`trimmed`](OutboxPage::trimmed) goes up by [`trim_outbox`](Self::trim_outbox) alone.
    /// The page includes everything decided before the call.
    ///
    /// Damaged records are skipped, so a page may be empty although more records follow: continue
    /// after [`last`](OutboxPage::last) while the page [has more](OutboxPage::has_more). A read
    /// with a `limit` of at least 1 examines at least one number, if there is one.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        let _ = (outbox, after, limit);
        StoreFuture::ready(Ok(OutboxPage::default()))
    }

    /// Confirms that the records of an outbox with numbers up to `through` are in the journal: the
    /// store may drop them.
    ///
    /// # Errors
    ///
    /// When the store cannot be written. Repeating the call is safe.
    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        let _ = (outbox, through);
        StoreFuture::ready(Ok(()))
    }

    /// Limits the size of every outbox.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) when the store cannot keep so much.
    fn limit_outboxes(&self, limit: OutboxLimit) -> Result<()> {
        outbox::no_limit(limit)
    }

    /// Registers `watcher`, to be notified when this process has written records. Default: does
    /// nothing.
    ///
    /// # Errors
    ///
    /// As [`watch`](Self::watch).
    fn watch_outboxes(&self, watcher: Weak<dyn OutboxWatcher>) -> Result<()> {
        drop(watcher);
        Ok(())
    }

    /// Flushes pending writes and releases files and connections.
    ///
    /// # Errors
    ///
    /// When a pending write fails.
    fn close(&self) -> StoreFuture<()>;
}

/// A possibly incomplete list of the buckets that may hold events.
#[derive(Debug)]
#[non_exhaustive]
pub struct KnownBuckets {
    /// The known buckets.
    pub buckets: Vec<BucketKey>,
    /// Why there may be others; `None` when the list is complete.
    pub away: Option<Error>,
}

impl KnownBuckets {
    /// Creates a complete list.
    pub fn all(buckets: Vec<BucketKey>) -> Self {
        let away = None;
        Self { buckets, away }
    }

    /// Creates an incomplete list, with the reason.
    pub fn some(buckets: Vec<BucketKey>, away: Error) -> Self {
        let away = Some(away);
        Self { buckets, away }
    }
}

/// A callback for new work in a store.
pub trait Watcher: Send + Sync {
    /// `bucket` has ready events where it had none, or an earlier next due time.
    fn earlier(&self, bucket: &BucketKey);

    /// `bucket` has ready events, and its owner, a node of another process, has no capacity for
    /// them.
    fn called(&self, bucket: &BucketKey);
}
