//! The shared state of the operations of a store: connections, clock, keys of buckets, watchers.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::mpsc;

use crate::core::engine::KEEP_FOR;
use crate::error::{Error, Result};
use crate::event::BucketKey;
use crate::outage::Outage;
use crate::store::clock;
use crate::store::contract::Watcher;
use crate::store::redis::hub::members::Members;
use crate::store::redis::hub::notifications::{NotificationCallbacks, Notifications};
use crate::store::redis::hub::origin::Origin;
use crate::store::redis::hub::registry::Registry;
use crate::store::redis::hub::shared_keys::SharedKeys;
use crate::store::redis::link::managed::{ManagedConnection, ScriptReply};
use crate::store::redis::link::options::ConnectionOptions;
use crate::store::redis::link::url::Target;
use crate::store::redis::op::capacity::Capacity;
use crate::store::redis::op::connections::StoreConnections;
use crate::store::redis::op::listened::Listened;
use crate::store::redis::op::outboxes::Outboxes;
use crate::store::redis::op::unheard::Unheard;
use crate::store::redis::options::RedisOptions;
use crate::store::redis::script::call::{Call, CallContext};
use crate::store::redis::script::keys::BucketKeys;
use crate::store::redis::script::lifecycle::Lifecycle;
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::server_clock::{ClockSteps, ServerClock, apart};
use crate::store::watchers::Watchers;
use crate::time::{Clock, SystemClock};

/// The most buckets whose keys are kept.
const KEYS_MAX: usize = 16_384;

/// The shared state of a store.
pub(in crate::store::redis) struct Shared {
    pub(in crate::store::redis) options: RedisOptions,
    pub(in crate::store::redis) origin: Origin,
    pub(in crate::store::redis) links: StoreConnections,
    pub(in crate::store::redis) hub: Arc<SharedKeys>,
    pub(in crate::store::redis) members: Members,
    pub(in crate::store::redis) registry: Arc<Registry>,
    pub(in crate::store::redis) outboxes: Outboxes,
    /// The limit of pushes in flight.
    pub(super) capacity: Arc<Capacity>,
    lifecycle: Arc<Lifecycle>,
    /// The subscription, created when a node of this process first polls a bucket.
    news: OnceLock<Notifications>,
    clock: SystemClock,
    /// The offset of the store's time from `clock`, in microseconds.
    offset_us: AtomicI64,
    /// The clock of the server, where there is one.
    server_clock: ServerClock,
    /// Steps of the servers' clocks.
    steps: ClockSteps,
    /// Takes buckets that are to be called again, see [`doubted`](super::doubted).
    doubted: mpsc::Sender<BucketKey>,
    keys: RwLock<HashMap<BucketKey, Arc<BucketKeys>>>,
    listened: Listened,
    pub(in crate::store::redis) watchers: Watchers<dyn Watcher>,
    /// Buckets in which what is over cannot be ended.
    pub(super) unended: Outage<BucketKey>,
    /// Whether events of a newer duly have been logged.
    pub(in crate::store::redis) met_newer: AtomicBool,
}

impl Shared {
    pub(in crate::store::redis) fn new(
        prefix: String,
        target: Target,
        links: StoreConnections,
        options: RedisOptions,
        doubted: mpsc::Sender<BucketKey>,
    ) -> Self {
        let lifecycle = Arc::new(Lifecycle::default());
        let hub = Arc::new(SharedKeys::new(
            prefix,
            target,
            links.hub.clone(),
            Arc::clone(&lifecycle),
            options.clock.clone(),
        ));
        Self {
            outboxes: Outboxes::new(options.records_max as u64),
            capacity: Capacity::new(options.pending_max),
            options,
            origin: Origin::new(),
            links,
            members: Members::new(Arc::clone(&hub)),
            registry: Arc::new(Registry::new(Arc::clone(&hub))),
            hub,
            lifecycle,
            news: OnceLock::new(),
            clock: SystemClock::new(),
            offset_us: AtomicI64::new(0),
            server_clock: ServerClock::default(),
            steps: ClockSteps::default(),
            doubted,
            keys: RwLock::default(),
            listened: Listened::default(),
            watchers: Watchers::default(),
            unended: Outage::of("ends of leases and of events that are over"),
            met_newer: AtomicBool::new(false),
        }
    }

    pub(in crate::store::redis) fn terms<'a>(&'a self, bucket: &'a BucketKey) -> CallContext<'a> {
        let buckets = self.registry.count();
        let records = self.options.records_total / buckets.max(1);
        let records = records.max(crate::core::op::BATCH_MAX) as u64;
        let (keys, mono_us) = (self.keys(bucket), self.mono_us());
        // One that has stood is better than that with which the bucket was last seen.
        let of_all = self.server_clock.offset();
        let of_all = of_all.filter(|_| !self.hub.is_cluster());
        let standing = of_all.filter(|_| self.steps.have_ended(mono_us));
        let offset_us = standing.or(keys.clock.offset()).or(of_all);
        CallContext {
            bucket,
            keys,
            now_us: self.options.clock.as_ref().map(|clock| clock.wall_us()),
            mono_us,
            expected_us: offset_us.map(|offset_us| mono_us.saturating_add_signed(offset_us)),
            window: self.options.window.shared_by(buckets),
            records_max: self.outboxes.kept_max(records),
            has_limit: self.outboxes.has_limit(),
            calls_functions: self.links.functions.is_on(),
            origin: self.origin.name(),
        }
    }

    /// Returns the keys of a bucket, built once.
    pub(super) fn keys(&self, bucket: &BucketKey) -> Arc<BucketKeys> {
        let known = {
            let keys = self.keys.read();
            keys.get(bucket).map(Arc::clone)
        };
        known.unwrap_or_else(|| {
            let mut keys = self.keys.write();
            if keys.len() >= KEYS_MAX {
                keys.clear(); // those in use are made again
            }
            let made = || Arc::new(BucketKeys::new(&self.hub.prefix, bucket));
            Arc::clone(keys.entry(bucket.clone()).or_insert_with(made))
        })
    }

    /// Runs a script on a bucket.
    pub(in crate::store::redis) async fn call(
        &self,
        bucket: &BucketKey,
        link: &ManagedConnection,
        call: &Call,
    ) -> Result<ReplyReader> {
        let ScriptReply { value, .. } = self.run_script(bucket, link, call).await?;
        ReplyReader::of(call.script.name, value)
    }

    /// Runs a script on a bucket; also returns whether it may have been executed more than once.
    pub(in crate::store::redis) async fn run_script(
        &self,
        bucket: &BucketKey,
        link: &ManagedConnection,
        call: &Call,
    ) -> Result<ScriptReply> {
        self.lifecycle.check_open()?;
        let unheard = self.unheard(bucket, call);
        let reply = link.run_script(call.script, &call.command).await;
        unheard.ended(&reply, |reply| reply.is_repeat);
        reply
    }

    /// Guards a call: where its reply is lost, its bucket may have earlier work and records.
    pub(super) fn unheard(&self, bucket: &BucketKey, call: &Call) -> Unheard<impl FnMut()> {
        Unheard::new(move || {
            if call.script.parts().contains(&"wake") {
                // First, as it may be executed only after this: by a server that hangs.
                self.origin.change();
                self.tell(bucket);
            }
            if call.has_records {
                self.outboxes.tell(bucket);
            }
        })
    }

    /// Returns the timeout of a push from its call on: the time of its retries, and that of its
    /// last attempt.
    pub(in crate::store::redis) fn push_timeout(&self) -> Duration {
        self.options.retry_for + self.call_timeout()
    }

    pub(super) fn call_timeout(&self) -> Duration {
        ConnectionOptions::of(&self.hub.target).timeout
    }

    /// Refuses timeouts with which a retry of a push could come after the store has forgotten the
    /// first attempt.
    pub(in crate::store::redis) fn check_times(&self) -> Result<()> {
        let longest = self.push_timeout();
        if longest < KEEP_FOR {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a push is tried for {:?} and its last attempt waits for {:?}: together {longest:?}, and \
             what became of a push is remembered for {KEEP_FOR:?}; set `retry_for` or the `timeout` \
             of the URL so that they stay below that",
            self.options.retry_for,
            longest.saturating_sub(self.options.retry_for),
        )))
    }

    /// Updates the store's time by the reply to a call with these terms.
    pub(in crate::store::redis) fn learn(&self, terms: &CallContext<'_>, now_us: u64) {
        let mono_us = self.mono_us();
        self.offset_us
            .store(apart(now_us, mono_us), Ordering::Relaxed);
        // The script ran in between.
        let between = (apart(now_us, mono_us), apart(now_us, terms.mono_us));
        let stepped_us = terms.keys.clock.learn(between);
        if clock::differs(self.server_clock.learn(between)) {
            self.steps.note(mono_us);
        }
        if clock::differs(stepped_us) && self.options.clock.is_none() {
            self.steps.log(mono_us, stepped_us);
        }
        // The server's clock is not believed, and the bucket is to be called again.
        let is_in_doubt = terms.expected_us == Some(now_us) && self.options.clock.is_none();
        let is_doubted = &terms.keys.is_doubted;
        if is_in_doubt && !is_doubted.swap(true, Ordering::Relaxed) {
            let is_sent = self.doubted.try_send(terms.bucket.clone()).is_ok();
            is_doubted.store(is_sent, Ordering::Relaxed);
        }
    }

    /// Sets the offset of the store's time from this machine's wall clock, in microseconds.
    pub(in crate::store::redis) fn set_offset(&self, offset_us: i64) {
        let now_us = self.clock.wall_us().saturating_add_signed(offset_us);
        let offset_us = apart(now_us, self.mono_us());
        self.offset_us.store(offset_us, Ordering::Relaxed);
        self.server_clock.learn((offset_us, offset_us));
    }

    /// Subscribes to a bucket that a node of this process polls.
    pub(super) fn listen(self: &Arc<Self>, bucket: &BucketKey) {
        if !self.listened.is_new(bucket, self.idle_us()) {
            return;
        }
        let open = || {
            let tell = |how: fn(&dyn Watcher, &BucketKey)| {
                let shared = Arc::downgrade(self);
                let tell = move |bucket: &BucketKey| {
                    if let Some(shared) = shared.upgrade() {
                        shared.tell_as(bucket, how);
                    }
                };
                Box::new(tell)
            };
            let listened = Arc::downgrade(self);
            let removes_idle = move |bucket: &BucketKey| {
                let shared = listened.upgrade();
                shared.is_some_and(|it| it.listened.remove_idle(bucket, it.idle_us()))
            };
            let callbacks = NotificationCallbacks {
                removes_idle: Box::new(removes_idle),
                earlier: tell(|watcher, bucket| watcher.earlier(bucket)),
                called: tell(|watcher, bucket| watcher.called(bucket)),
            };
            let options = ConnectionOptions::of(&self.hub.target);
            Notifications::open(
                &self.hub.target,
                &options,
                &self.hub.prefix,
                &self.origin,
                self.links.hub.connections(),
                callbacks,
            )
        };
        self.news.get_or_init(open).add([bucket]);
    }

    /// Returns the store's time, as far as this process knows it.
    pub(in crate::store::redis) fn now_us(&self) -> u64 {
        match &self.options.clock {
            Some(clock) => clock.wall_us(),
            None => self
                .mono_us()
                .saturating_add_signed(self.offset_us.load(Ordering::Relaxed)),
        }
    }

    /// The time of this process, which no step of its wall clock changes.
    pub(super) fn mono_us(&self) -> u64 {
        self.clock.mono().as_nanos() / 1_000
    }

    /// The time by which buckets become idle.
    fn idle_us(&self) -> u64 {
        let given = self.options.clock.as_ref();
        given.map_or_else(|| self.mono_us(), |clock| clock.mono().as_nanos() / 1_000)
    }

    /// Notifies the watchers of earlier work in a bucket.
    pub(in crate::store::redis) fn tell(&self, bucket: &BucketKey) {
        self.tell_as(bucket, |watcher, bucket| watcher.earlier(bucket));
    }

    fn tell_as(&self, bucket: &BucketKey, how: fn(&dyn Watcher, &BucketKey)) {
        self.watchers.tell(|watcher| how(watcher, bucket));
    }

    /// Refuses all further calls, and closes the connections.
    pub(in crate::store::redis) fn close(&self) {
        self.lifecycle.close();
        self.links.close();
        if let Some(news) = self.news.get() {
            news.close();
        }
    }
}

/// How much there is of what must not grow for ever.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("outboxes", &self.outboxes)
            .field("listened", &self.listened.len())
            .field("news", &self.news.get())
            .finish_non_exhaustive()
    }
}
