//! The state that all parts of a Redis store share: connections, clock, buckets, watchers.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;

use crate::core::op::{Answer, AttemptOutcome, FailureReason, Settlement, StartMark, StoreOp};
use crate::core::reference::KEEP_FOR;
use crate::error::{Error, Result};
use crate::event::{BucketKey, EventId};
use crate::record::{Cause, NodeId};
use crate::store::clock;
use crate::store::contract::Watcher;
use crate::store::redis::capacity::Capacity;
use crate::store::redis::choices::RedisOptions;
use crate::store::redis::connections::StoreConnections;
use crate::store::redis::decode::{self, ReplyReader};
use crate::store::redis::encode::{Call, CallContext};
use crate::store::redis::hub::notifications::{NotificationCallbacks, Notifications};
use crate::store::redis::in_parts;
use crate::store::redis::keys::BucketKeys;
use crate::store::redis::link::managed::{ManagedConnection, ScriptReply};
use crate::store::redis::link::options::ConnectionOptions;
use crate::store::redis::link::url::{Place, Target};
use crate::store::redis::outbox::Outboxes;
use crate::store::redis::record::DAMAGED;
use crate::store::redis::registry::Registry;
use crate::store::redis::server_clock::{ClockSteps, ServerClock, apart};
use crate::store::redis::shared_state::SharedState;
use crate::store::watchers::Watchers;
use crate::time::{Clock, SystemClock};

/// The most buckets whose keys are kept.
const KEYS_MAX: usize = 16_384;

/// The shared state of a store.
pub(super) struct Shared {
    pub(super) prefix: String,
    pub(super) options: RedisOptions,
    /// The identifier of this process in messages.
    pub(super) origin: String,
    pub(super) links: StoreConnections,
    pub(super) hub: SharedState,
    pub(super) registry: Registry,
    pub(super) outboxes: Outboxes,
    /// The limit of pushes in flight.
    pub(super) capacity: Arc<Capacity>,
    target: Target,
    /// The subscription, created when a node of this process first polls a bucket.
    news: OnceLock<Notifications>,
    clock: SystemClock,
    /// The offset of the store's time from `clock`, in microseconds.
    offset_us: AtomicI64,
    /// The clock of the server, where there is one.
    server_clock: ServerClock,
    /// The log of steps of the servers' clocks.
    steps: ClockSteps,
    keys: RwLock<HashMap<BucketKey, Arc<BucketKeys>>>,
    /// The subscribed buckets.
    listened: RwLock<HashSet<BucketKey>>,
    pub(super) watchers: Watchers<dyn Watcher>,
    is_closed: AtomicBool,
    /// Why everything is refused: the keys have another format than this version knows.
    fenced: OnceLock<String>,
    /// Whether events of a newer duly have been logged.
    met_newer: AtomicBool,
}

impl Shared {
    pub(super) fn new(
        prefix: String,
        target: Target,
        links: StoreConnections,
        options: RedisOptions,
    ) -> Self {
        Self {
            prefix,
            outboxes: Outboxes::new(options.records_max as u64),
            capacity: Capacity::new(options.pending_max),
            options,
            origin: format!("{:016x}", fastrand::u64(..)),
            links,
            hub: SharedState::default(),
            registry: Registry::default(),
            target,
            news: OnceLock::new(),
            clock: SystemClock::new(),
            offset_us: AtomicI64::new(0),
            server_clock: ServerClock::default(),
            steps: ClockSteps::default(),
            keys: RwLock::default(),
            listened: RwLock::default(),
            watchers: Watchers::default(),
            is_closed: AtomicBool::new(false),
            fenced: OnceLock::new(),
            met_newer: AtomicBool::new(false),
        }
    }

    /// Returns whether the keys are on several servers, of which one may be unavailable.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.target.place, Place::Cluster(_))
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn terms(&self) -> CallContext<'_> {
        let buckets = self.registry.count();
        let records = self.options.records_total / buckets.max(1);
        let records = records.max(crate::core::op::BATCH_MAX) as u64;
        CallContext {
            now_us: self.options.clock.as_ref().map(|clock| clock.wall_us()),
            mono_us: self.mono_us(),
            offset_us: (!self.is_cluster())
                .then(|| self.server_clock.offset())
                .flatten(),
            window: self.options.window.shared_by(buckets),
            records_max: self.outboxes.kept_max(records),
            waiting_max: self.outboxes.waiting_max(records),
            calls_functions: self.links.functions.is_on(),
            origin: &self.origin,
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
            let made = || Arc::new(BucketKeys::new(&self.prefix, bucket));
            Arc::clone(keys.entry(bucket.clone()).or_insert_with(made))
        })
    }

    /// Runs a script on a bucket.
    pub(super) async fn call(&self, link: &ManagedConnection, call: &Call) -> Result<ReplyReader> {
        ReplyReader::of(call.script.name, self.run(link, call).await?)
    }

    /// Runs a script; also returns whether it may have been executed more than once.
    pub(super) async fn run_script(
        &self,
        link: &ManagedConnection,
        call: &Call,
    ) -> Result<ScriptReply> {
        self.check_open()?;
        link.run_script(call.script, &call.command).await
    }

    /// Returns the timeout of a push from its call on: the time of its retries, and that of its
    /// last attempt.
    pub(super) fn push_timeout(&self) -> Duration {
        self.options.retry_for + ConnectionOptions::of(&self.target).timeout
    }

    /// Refuses timeouts with which a retry of a push could come after the store has forgotten the
    /// first attempt.
    pub(super) fn check_times(&self) -> Result<()> {
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

    /// Runs a script.
    pub(super) async fn run(&self, link: &ManagedConnection, call: &Call) -> Result<redis::Value> {
        self.check_open()?;
        link.run(call.script, &call.command).await
    }

    /// Sends a command.
    pub(super) async fn send(
        &self,
        link: &ManagedConnection,
        command: &redis::Cmd,
    ) -> Result<redis::Value> {
        self.check_open()?;
        link.send(command).await
    }

    /// Executes an operation: in one call, or in several where it is too much for one.
    pub(super) async fn operate(
        self: &Arc<Self>,
        bucket: &BucketKey,
        op: StoreOp,
    ) -> Result<Answer> {
        match &op {
            StoreOp::Settle {
                node,
                settlements,
                started,
            } => {
                return in_parts::settle(self, bucket, *node, settlements, *started, 0).await;
            }
            StoreOp::Revive { .. } | StoreOp::Drop { .. } => {
                return in_parts::revive_or_drop(self, bucket, &op).await;
            }
            _ => {}
        }
        let keys = self.keys(bucket);
        let terms = self.terms();
        let call = terms.operation(&keys, &op)?;
        let link = match op {
            StoreOp::Fetch(_) | StoreOp::MoveDue { .. } => {
                self.listen(bucket);
                &self.links.work
            }
            StoreOp::Heartbeat { .. } | StoreOp::Reconcile { .. } | StoreOp::Reap { .. } => {
                &self.links.pulse
            }
            _ => self.links.for_pushes(bucket),
        };
        let parts = self.call_unexpired(bucket, link, &call).await?;
        let read = decode::read(&bucket.queue, &op, parts)?;
        self.learn(&keys, terms.mono_us, read.answer.now_us);
        if read.is_earlier {
            self.tell(bucket);
        }
        if read.newer > 0 && !self.met_newer.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %bucket,
                events = read.newer,
                "skipped events of a newer version of duly"
            );
        }
        if read.has_recorded {
            self.outboxes.tell(bucket);
        }
        if let StoreOp::Fetch(fetch) = &op
            && !read.damaged.is_empty()
        {
            let burying = self.bury(bucket, fetch.node, fetch.request, read.damaged);
            Box::pin(burying).await?; // rare, and large
        }
        Ok(read.answer)
    }

    /// Buries leased events whose bytes are damaged, so that they are never delivered, and can be
    /// inspected.
    async fn bury(
        &self,
        bucket: &BucketKey,
        node: NodeId,
        request: u64,
        damaged: Vec<(EventId, Error)>,
    ) -> Result<()> {
        let settlements = damaged.into_iter().map(|(id, error)| {
            tracing::error!(%bucket, %id, %error, "damaged event moved to the dead letters");
            Settlement {
                id,
                request,
                verdict: AttemptOutcome::Bury(FailureReason {
                    cause: Cause::Undecodable,
                    error: Some(error.to_string()),
                }),
                started_us: 0,
                fetched_us: 0,
            }
        });
        let settlements: Vec<_> = settlements.collect();
        let none = StartMark::default();
        in_parts::settle(self, bucket, node, &settlements, none, DAMAGED).await?;
        Ok(())
    }

    /// Updates the store's time by a reply from a bucket to a call of `sent_us`, by this process's time.
    pub(super) fn learn(&self, keys: &BucketKeys, sent_us: u64, now_us: u64) {
        let mono_us = self.mono_us();
        self.offset_us
            .store(apart(now_us, mono_us), Ordering::Relaxed);
        // The script ran in between.
        let between = (apart(now_us, mono_us), apart(now_us, sent_us));
        let stepped_us = keys.clock.learn(between);
        self.server_clock.learn(between);
        if clock::differs(stepped_us) && self.options.clock.is_none() {
            self.steps.log(mono_us, stepped_us);
        }
    }

    /// Sets the offset of the store's time from this machine's wall clock, in microseconds.
    pub(super) fn set_offset(&self, offset_us: i64) {
        let now_us = self.clock.wall_us().saturating_add_signed(offset_us);
        let offset_us = apart(now_us, self.mono_us());
        self.offset_us.store(offset_us, Ordering::Relaxed);
        self.server_clock.learn((offset_us, offset_us));
    }

    /// Subscribes to a bucket that a node of this process polls.
    fn listen(self: &Arc<Self>, bucket: &BucketKey) {
        if self.listened.read().contains(bucket) {
            return;
        }
        self.listened.write().insert(bucket.clone());
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
            let told = NotificationCallbacks {
                earlier: tell(|watcher, bucket| watcher.earlier(bucket)),
                called: tell(|watcher, bucket| watcher.called(bucket)),
            };
            let options = ConnectionOptions::of(&self.target);
            Notifications::open(&self.target, &options, &self.prefix, &self.origin, told)
        };
        self.news.get_or_init(open).add([bucket]);
    }

    /// Returns the store's time, as far as this process knows it.
    pub(super) fn now_us(&self) -> u64 {
        match &self.options.clock {
            Some(clock) => clock.wall_us(),
            None => self
                .mono_us()
                .saturating_add_signed(self.offset_us.load(Ordering::Relaxed)),
        }
    }

    /// The time of this process, which no step of its wall clock changes.
    fn mono_us(&self) -> u64 {
        self.clock.mono().as_nanos() / 1_000
    }

    /// Notifies the watchers of earlier work in a bucket.
    pub(super) fn tell(&self, bucket: &BucketKey) {
        self.tell_as(bucket, |watcher, bucket| watcher.earlier(bucket));
    }

    fn tell_as(&self, bucket: &BucketKey, how: fn(&dyn Watcher, &BucketKey)) {
        self.watchers.tell(|watcher| how(watcher, bucket));
    }

    /// Refuses all further calls, and closes the connections.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.links.close();
        if let Some(news) = self.news.get() {
            news.close();
        }
    }

    /// Refuses all further calls, since the format of the keys has changed: this process and others
    /// could no longer read each other's data.
    pub(super) fn fence(&self, why: Error) -> Error {
        let words = self.fenced.get_or_init(|| {
            tracing::error!(error = %why, "store stopped, the format of its keys has changed");
            format!("{why}; this process no longer uses the store, restart it with that version")
        });
        Error::closed(words.clone()).because(why)
    }

    fn check_open(&self) -> Result<()> {
        if let Some(words) = self.fenced.get() {
            return Err(Error::closed(words.clone()));
        }
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::closed("the store was closed; open it again"));
        }
        Ok(())
    }
}
