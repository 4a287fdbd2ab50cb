//! The store: where events wait, and the contract that every store keeps.

mod control;
mod durability;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
mod future;
mod hub;
mod memory;
mod metered;
pub mod operation;
mod outbox;
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod shards;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::control::RATES;
pub use self::control::{Control, Setting};
pub use self::durability::Durability;
#[cfg(feature = "embedded")]
pub use self::embedded::{Damaged, EmbeddedOptions, EmbeddedStore};
pub use self::future::StoreFuture;
pub use self::memory::{MemoryStore, RECORDS_MAX};
pub(crate) use self::metered::Metered;
pub(crate) use self::operation::{Operation, unexpected};
pub(crate) use self::outbox::OutboxWatchers;
pub use self::outbox::{
    OUTBOX_BATCH_MAX, Outbox, OutboxLimit, OutboxPage, OutboxWatcher, WhenFull,
};
#[cfg(feature = "redis")]
pub use self::redis::{RedisOptions, RedisStore};
use crate::core::op::{Answer, Delivery, NewEvent, StoreOp};
pub use crate::core::reference::{DedupWindow, ID_AHEAD_MAX, KEEP_FOR};
pub use crate::core::roll::{Member, Presence, Roll};
use crate::error::{Error, Result};
use crate::event::{BucketKey, QueueName};

/// Where events wait: the durable side of the bus.
///
/// A store is whatever passes the contract suite of the crate `duly-conformance`. The suite says in tests what this page says in words.
///
/// # The contract
///
/// **One operation is one step.** [`apply`](Self::apply) is atomic on its bucket: another
/// operation sees all of it or nothing. Operations on one bucket happen one after the other.
///
/// **An answer is the truth.** `Ok` means that it happened, and for a push, a settle and every
/// change by hand that it is as durable as [`durability`](Self::durability) says. An error of kind
/// [`Unknown`] means that it may have happened. Every other error means that nothing happened.
///
/// **Every operation can be repeated.** The same push, fetch, settle, heartbeat or reap after an
/// `Unknown` has the effect of one.
///
/// **The clock is the store's.** Due times and deadlines are compared to it alone; it never goes
/// back within a bucket. No event is leased before it is due, but for the read-ahead that a fetch
/// asks for, and then its due time is in the delivery.
///
/// **Nothing is forgotten.** An accepted event is in exactly one state at any time. It leaves the
/// store only by ack, discard, cancel, expiry or an operator's drop, and each of these writes a
/// record in the same step.
///
/// **A lease is a fact.** From fetch to settle an event belongs to one node, under the number of
/// the fetch that leased it. A settle under any other is refused. A lease ends early only by a
/// reap, which needs the holder's last heartbeat number, so a node that has beaten since is spared.
/// A fetch that gives a node something is a heartbeat as well. A node that was reaped is told
/// before it gets more: while it is reaped, and once after, its fetch is refused as [`LeaseLost`].
/// The store tells a node with each heartbeat and fetch what it holds, and takes back what the node
/// says that it does not hold.
/// A fetch with a number that is not greater than the node's last one leases nothing: it answers
/// what is still held under that number.
///
/// **Attempts count once.** A retry, a bury and a reap count the attempt; a release and a snooze do
/// not. Neither does a reap of a lease on which its node had announced no start: the event is
/// handed back, without a record. An event whose attempts are used up becomes a dead letter,
/// whoever asks for a retry.
///
/// **Everything is bounded.** No operation carries or returns more than
/// [`BATCH_MAX`](crate::store::operation::BATCH_MAX) events, nor much more than
/// [`BATCH_BYTES`](crate::store::operation::BATCH_BYTES) of payloads, but one event of any size.
///
/// [`Unknown`]: crate::ErrorKind::Unknown
/// [`LeaseLost`]: crate::ErrorKind::LeaseLost
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Applies one operation to one bucket, which need not exist yet.
    ///
    /// Operations that need no disk and no network are done when this returns, and the future is
    /// ready at once; the mover relies on it for punctuality, not for correctness.
    ///
    /// # Errors
    ///
    /// As in the contract above.
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Answer>;

    /// What a push that answered `Ok` survives.
    fn durability(&self) -> Durability;

    /// Pushes, and answers only once the events are as durable as `wanted`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) when the store can never be so durable; nothing was
    /// pushed. [`Unknown`](crate::ErrorKind::Unknown) when it was not reached: the push may have
    /// happened, and pushing the same ids again is safe. Else as [`apply`](Self::apply).
    fn push_durably(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Durability,
    ) -> StoreFuture<Answer> {
        let reaches = self.durability();
        if wanted > reaches {
            let refused = Error::invalid(format!(
                "a push that survives {wanted:?} was asked for, and this store reaches {reaches:?}"
            ));
            return StoreFuture::ready(Err(refused));
        }
        self.apply(bucket, StoreOp::Push(events))
    }

    /// The store's time, as far as this process knows it, in microseconds since the epoch: what
    /// ids and expiries are made from, so that pushers whose clocks are wrong agree with others.
    fn now_us(&self) -> u64;

    /// Says that a node is there, and answers who else is.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached.
    fn roll_call(&self, me: Presence) -> StoreFuture<Roll> {
        StoreFuture::ready(Ok(Roll::alone(&me)))
    }

    /// What was set of queues while they ran.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        StoreFuture::ready(Ok(BTreeMap::new()))
    }

    /// Sets one thing of a queue, for every node, until it is set again.
    ///
    /// # Errors
    ///
    /// When the store cannot be written; one that keeps no settings answers
    /// [`Invalid`](crate::ErrorKind::Invalid).
    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        let refused = Error::invalid(format!(
            "this store keeps no settings, {setting:?} of queue {queue} was not set"
        ));
        StoreFuture::ready(Err(refused))
    }

    /// Whether nodes in other processes may use the same events, so that a silent one must be
    /// looked for.
    fn is_shared(&self) -> bool;

    /// Every bucket that may hold events: also those of queues and bucket counts used before.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn buckets(&self) -> StoreFuture<Vec<BucketKey>>;

    /// The same for what an operator asks, to whom a part helps more than nothing: where a shared
    /// store cannot tell all of them now, those that it knows of, and why there may be others.
    /// Default: all of them.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, and nothing is known.
    fn known_buckets(&self) -> StoreFuture<KnownBuckets> {
        let all = self.buckets();
        StoreFuture::new(async move { Ok(KnownBuckets::all(all.await?)) })
    }

    /// Notes how many buckets the settings give to each queue, and to any other: whoever consumes a
    /// queue serves so many of its buckets in any case. A store that registers buckets can take in
    /// a push to one of them while its registry is away. Default: it is of no use.
    fn configured(&self, queues: &BTreeMap<QueueName, u16>, others: u16) {
        let _ = (queues, others);
    }

    /// How long a bucket may be left alone in which nothing is known to be due and of which no
    /// watcher was told anything: the net under news that get lost. Default: 30 s.
    fn look_every(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// From now on `watcher` is told when a bucket's next work comes earlier than it was.
    fn watch(&self, watcher: Arc<dyn Watcher>);

    /// Notes that the handlers of these deliveries start now, in a way that outlives the process.
    ///
    /// Called by workers before the first line of a handler runs, so it must be quick. A store
    /// that counts every lease anyway has nothing to do.
    ///
    /// # Errors
    ///
    /// When the note could not be written; the handlers are then not started.
    fn starting(&self, queue: &QueueName, deliveries: &[&Delivery]) -> Result<()> {
        let _ = (queue, deliveries);
        Ok(())
    }

    /// Every outbox that may hold records.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn outboxes(&self) -> StoreFuture<Vec<Outbox>>;

    /// Reads the records of an outbox with numbers greater than `after`, in the order in which they
    /// were written; at most `limit` or [`OUTBOX_BATCH_MAX`] of them, and perhaps fewer than there
    /// are. With a `limit` of 0 it tells only [`first`](OutboxPage::first) and
    /// [`next`](OutboxPage::next). What was decided before the call is in it.
    ///
    /// Damaged records are passed over, so a page may be empty and there is more all the same:
    /// reading goes on after [`last`](OutboxPage::last) while it
    /// [has more](OutboxPage::has_more). A read that may answer one record looks at one number at
    /// least, if there is one.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage>;

    /// Says that the records of an outbox with numbers up to `through` are in the journal: the
    /// store may let go of them.
    ///
    /// # Errors
    ///
    /// When the store cannot be written. Saying it again is safe.
    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()>;

    /// Bounds every outbox from now on.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) when the store cannot keep so much.
    fn limit_outboxes(&self, limit: OutboxLimit) -> Result<()>;

    /// From now on `watcher` is told when this process has written records.
    fn watch_outboxes(&self, watcher: Arc<dyn OutboxWatcher>);

    /// Writes what is still on its way and lets go of files and connections.
    ///
    /// # Errors
    ///
    /// When something on its way could not be written.
    fn close(&self) -> StoreFuture<()>;
}

/// Buckets that may hold events.
#[derive(Debug)]
#[non_exhaustive]
pub struct KnownBuckets {
    /// Those that are known.
    pub buckets: Vec<BucketKey>,
    /// Why there may be others.
    pub away: Option<Error>,
}

impl KnownBuckets {
    /// These are all.
    pub fn all(buckets: Vec<BucketKey>) -> Self {
        let away = None;
        Self { buckets, away }
    }

    /// These are known, and there may be others, for this reason.
    pub fn some(buckets: Vec<BucketKey>, away: Error) -> Self {
        let away = Some(away);
        Self { buckets, away }
    }
}

/// Told by a store that there is work.
pub trait Watcher: Send + Sync {
    /// `bucket` has ready events where it had none, or an earlier next due time.
    fn earlier(&self, bucket: &BucketKey);

    /// `bucket` has ready events, and the node of another process that looks first has no room for
    /// them.
    fn called(&self, bucket: &BucketKey);
}
