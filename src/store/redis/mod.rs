//! The Redis store, for many processes on many machines.
//!
//! Each operation is one script on the keys of one bucket, so it is atomic, and takes one round
//! trip. Its semantics are those of the engine.

mod check;
mod durability;
pub(crate) mod hub;
pub(crate) mod link;
pub(crate) mod op;
mod options;
pub(crate) mod preflight;
pub(crate) mod script;
#[cfg(test)]
mod tests;
mod unregistered;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;

use self::durability::ServerDurability;
use self::hub::{registry, settings};
use self::link::reads::read;
use self::link::script::Script;
use self::link::url::Target;
use self::link::{libraries, startup};
use self::op::connections::StoreConnections;
use self::op::push::Pushes;
use self::op::server_facts::ServerFacts;
use self::op::shared::Shared;
use self::op::{confirmed, doubted, outbox};
pub use self::options::RedisOptions;
use crate::core::membership::{MemberInfo, Membership};
use crate::core::op::{NewEvent, Response, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, QueueName};
use crate::store::contract::{KnownBuckets, Store, Watcher};
use crate::store::control::{Control, Setting};
use crate::store::damage::{CheckTask, Damage};
use crate::store::durability::Durability;
use crate::store::future::StoreFuture;
use crate::store::outbox::{Outbox, OutboxLimit, OutboxPage, OutboxWatcher};
use crate::time::SystemClock;

/// A store on Redis 7.0 or later, or Valkey: for many processes on many machines.
///
/// | URL | servers |
/// |---|---|
/// | `redis://[user:password@]host[:6379][/database]` | one server; `rediss` is the same over TLS |
/// | `redis+unix:///path/to.sock` | one server on this machine; `user`, `pass` and `db` as options |
/// | `redis-sentinel://[user:password@]host[:26379],host../name[/database]` | the master that the Sentinels name |
/// | `redis-cluster://[user:password@]host[:6379],host..` | a cluster |
///
/// Options follow a `?`, separated by `&`:
///
/// | option | meaning | default |
/// |---|---|---|
/// | `prefix` | the key prefix; buses with different ones are separate | `duly` |
/// | `connections` | the number of connections for pushes | 1 |
/// | `timeout` | the timeout of a call | `5s` |
/// | `connect_timeout` | the timeout of an attempt to connect | `2s` |
/// | `ca` | a file of root certificates, for `rediss` | the machine's |
/// | `eviction` | `allowed` accepts a server that evicts keys when it is full | refused |
///
/// Failures:
///
/// - **One of the application's processes dies, or stops for longer than its leases**: its events
///   are handed to others within three seconds. What it settles later is refused and on record.
/// - **The servers are unavailable**: pushes are retried for [`RedisOptions::retry_for`], and then
///   fail with [`Unavailable`](crate::ErrorKind::Unavailable), or
///   [`Unknown`](crate::ErrorKind::Unknown) where they may have happened. Nothing starts early, and
///   work resumes by itself when they are back.
/// - **The cluster node with the registry is unavailable** (the keys with the tag `{hub}`): known
///   data stays valid. Pushes to the other servers go on, and so do nodes, without membership
///   updates; programs start with the buckets of their settings, and log a warning. Only a push to
///   a bucket beyond those of the settings, and not known to be registered, fails with
///   [`Unavailable`](crate::ErrorKind::Unavailable).
/// - **Their memory is full**: pushes fail with [`Full`](crate::ErrorKind::Full) and none of their
///   events is stored. Stored events are still handled.
/// - **Too many records wait for the journal**: the oldest are dropped, or pushes fail with
///   [`Full`](crate::ErrorKind::Full), as [`OutboxLimit`] says.
/// - **Bytes are damaged**: they are never delivered. The event becomes a dead letter that says so.
///
/// A server is as durable as its configuration, which is read at the start, after each reconnection
/// and each minute: [`durability`](Store::durability) returns
/// [`Memory`](Durability::Memory) without an append-only file, [`OsCache`](Durability::OsCache)
/// with one that is synced each second, [`Disk`](Durability::Disk) with `appendfsync always`. A
/// replica that takes over may lack the last pushes; for a push that must not be lost, request
/// [`Replicated`](Durability::Replicated).
///
/// # Examples
///
/// ```no_run
/// use duly::store::RedisStore;
///
/// # async fn open() -> duly::Result<()> {
/// let store = RedisStore::open("redis://127.0.0.1/0?prefix=shop").await?;
/// let bus = duly::Bus::builder().store(store).start().await?;
/// # Ok(())
/// # }
/// ```
pub struct RedisStore {
    shared: Arc<Shared>,
    pushes: Arc<Pushes>,
    found: ServerFacts,
    durability: Arc<ServerDurability>,
}

impl RedisStore {
    /// Connects to the servers of `url`, and verifies that they can keep the promises.
    ///
    /// # Errors
    ///
    /// As [`open_with`](Self::open_with).
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, RedisOptions::new()).await
    }

    /// Connects with options.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) when the URL is malformed, or when the servers are
    /// too old, evict keys, or deny this user a required command;
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when they cannot be reached. The message says
    /// what would be right.
    ///
    /// Where sentinels name a master that cannot be used, a failover may be under way: then opening
    /// retries for 10 seconds before it fails, and for 30 where a cluster does not serve every slot. It
    /// waits for up to five minutes for a server that is still loading its data, and says so in the log.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn open_with(url: &str, options: RedisOptions) -> Result<Self> {
        let target = Target::parse(url)?;
        startup::repeat(&target, || Self::try_open(target.clone(), options.clone())).await
    }

    async fn try_open(target: Target, options: RedisOptions) -> Result<Self> {
        let links = StoreConnections::open(&target).await?;
        let prefix = target.choices.prefix.clone();
        let prefix = prefix.unwrap_or_else(|| PREFIX.to_owned());
        let found = preflight::check(&links.work, &target, &prefix, &SystemClock::new()).await?;
        let (doubted, to_call) = mpsc::channel(doubted::MAX);
        let shared = Shared::new(prefix, target, links, options, doubted);
        shared.check_times()?;
        shared.set_offset(found.offset_us);
        shared.hub.claim_at_start().await?;
        if found.allows_functions {
            shared.links.functions.allow();
            let ours = preflight::scripts().map(Script::function).collect();
            libraries::remove_others(&shared.links.work, &ours).await;
        }
        let shared = Arc::new(shared);
        doubted::watch(&shared, to_call);
        let durability = ServerDurability::watch(&shared, &found);
        Ok(Self {
            durability,
            shared,
            pushes: Arc::default(),
            found,
        })
    }
}

/// The default key prefix.
const PREFIX: &str = "duly";
/// How long a bucket may be left alone of which nothing is heard.
const FALLBACK_POLL_EVERY: Duration = Duration::from_secs(600);

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("prefix", &self.shared.hub.prefix)
            .field("found", &self.found)
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Response> {
        let (shared, pushes) = (Arc::clone(&self.shared), Arc::clone(&self.pushes));
        op::apply(shared, pushes, bucket.clone(), op)
    }

    fn durability(&self) -> Durability {
        self.durability.get()
    }

    fn check_bucket(&self, bucket: &BucketKey, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        let (shared, bucket) = (Arc::clone(&self.shared), bucket.clone());
        StoreFuture::new(async move { check::check(&shared, bucket, task).await })
    }

    fn check_store(&self, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        let (shared, mut found) = (Arc::clone(&self.shared), check::settings(self));
        StoreFuture::new(async move {
            found.extend(unregistered::find(&shared, &task).await?);
            Ok(found)
        })
    }

    fn push_durably(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Durability,
    ) -> StoreFuture<Response> {
        let offered = self.durability.get();
        // Until it is read again after a connection was made, the servers are asked.
        let is_sure = !self.found.waits_for_disk || self.durability.is_certain(&self.shared);
        if wanted <= offered && (wanted < Durability::Disk || is_sure) {
            return self.apply(bucket, StoreOp::Push(events));
        }
        let shared = Arc::clone(&self.shared);
        let found = ServerFacts {
            durability: offered,
            ..self.found.clone()
        };
        let bucket = bucket.clone();
        StoreFuture::new(
            async move { confirmed::push(&shared, &found, &bucket, events, wanted).await },
        )
    }

    fn now_us(&self) -> u64 {
        self.shared.now_us()
    }

    fn is_shared(&self) -> bool {
        true
    }

    /// Long: the subscription has every bucket polled whenever it may have missed a message.
    fn fallback_poll_every(&self) -> Duration {
        FALLBACK_POLL_EVERY
    }

    fn connections(&self) -> u64 {
        *self.shared.links.work.connections().borrow()
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        let registry = Arc::clone(&self.shared.registry);
        StoreFuture::new(async move { read(|| registry::read(&registry)).await })
    }

    fn known_buckets(&self) -> StoreFuture<KnownBuckets> {
        let registry = Arc::clone(&self.shared.registry);
        StoreFuture::new(async move { registry::known(&registry).await })
    }

    fn buckets_of(&self, queue: &QueueName) -> StoreFuture<KnownBuckets> {
        let (registry, queue) = (Arc::clone(&self.shared.registry), queue.clone());
        StoreFuture::new(async move { registry::known_of(&registry, &queue).await })
    }

    fn configured(&self, queues: &BTreeMap<QueueName, u16>, others: u16) {
        self.shared.registry.configure(queues, others);
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> Result<()> {
        self.shared.watchers.add(watcher)
    }

    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        let shared = Arc::clone(&self.shared);
        StoreFuture::new(async move { shared.members.poll(me).await })
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        let hub = Arc::clone(&self.shared.hub);
        StoreFuture::new(async move { read(|| settings::controls(&hub)).await })
    }

    fn control_of(&self, queue: &QueueName) -> StoreFuture<Option<Control>> {
        let (hub, queue) = (Arc::clone(&self.shared.hub), queue.clone());
        StoreFuture::new(async move { read(|| settings::control_of(&hub, &queue)).await })
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        let (hub, queue) = (Arc::clone(&self.shared.hub), queue.clone());
        StoreFuture::new(async move { settings::set(&hub, &queue, setting).await })
    }

    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        let registry = Arc::clone(&self.shared.registry);
        StoreFuture::new(async move {
            let buckets = registry::known(&registry).await?.buckets;
            Ok(buckets.into_iter().map(Outbox::Bucket).collect())
        })
    }

    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        let Outbox::Bucket(bucket) = outbox.clone() else {
            return StoreFuture::ready(Ok(OutboxPage::default()));
        };
        let shared = Arc::clone(&self.shared);
        StoreFuture::new(async move { read(|| outbox::page(&shared, &bucket, after, limit)).await })
    }

    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        let Outbox::Bucket(bucket) = outbox.clone() else {
            return StoreFuture::ready(Ok(()));
        };
        let shared = Arc::clone(&self.shared);
        StoreFuture::new(async move { outbox::trim(&shared, &bucket, through).await })
    }

    fn limit_outboxes(&self, limit: OutboxLimit) -> Result<()> {
        self.shared.outboxes.limit(limit)
    }

    fn watch_outboxes(&self, watcher: Weak<dyn OutboxWatcher>) -> Result<()> {
        self.shared.outboxes.watch(watcher)
    }

    fn close(&self) -> StoreFuture<()> {
        let (shared, pushes) = (Arc::clone(&self.shared), Arc::clone(&self.pushes));
        StoreFuture::new(async move {
            pushes.idle().await;
            shared.close();
            Ok(())
        })
    }
}
