//! Membership polls: renew this node's membership, and follow members and runtime settings.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::core::step::Input;
use crate::error::{ErrorKind, Result};
use crate::event::QueueName;
use crate::flow::consumers::set::Consumers;
use crate::flow::membership::poll_call;
use crate::flow::node::inbox::Inbox;
use crate::flow::pull::Pulls;
use crate::flow::runtime_settings::RuntimeSettings;
use crate::metrics::NodeGauges;
use crate::outage::Outage;
use crate::panics;
use crate::store::{MemberInfo, Store};

/// How often the settings are read whatever their versions: the fallback poll.
const ALL_EVERY: Duration = Duration::from_secs(60);

/// The runtime settings of queues and the list of buckets, read from the store when they change.
pub(crate) struct SettingsReader {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) controls: Arc<RuntimeSettings>,
    pub(crate) consumers: Arc<Consumers>,
    pub(crate) pulls: Arc<Pulls>,
    /// One reading of the settings at a time, so that the last one applied is the latest.
    pub(crate) reads: Mutex<()>,
}

impl SettingsReader {
    /// Reads everything. If a shared store cannot be reached, the configured settings apply until a
    /// membership poll succeeds.
    ///
    /// # Errors
    ///
    /// When the store cannot be read for any other reason.
    pub(crate) async fn read_at_start(&self) -> Result<()> {
        let read = async {
            self.read_controls().await?;
            self.read_buckets().await
        };
        let Err(error) = read.await else {
            return Ok(());
        };
        let is_away = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
        if !is_away || !self.store.is_shared() {
            return Err(error);
        }
        panics::reported(|| {
            tracing::warn!(
                %error,
                "failed to read runtime settings; configured settings apply until the store \
                 responds"
            );
        });
        self.consumers.follow();
        Ok(())
    }

    /// Reads and applies the settings of queues.
    ///
    /// # Errors
    ///
    /// When the store cannot be read; everything stays as it is.
    pub(crate) async fn read_controls(&self) -> Result<()> {
        let _one = self.reads.lock().await;
        let controls = poll_call(self.store.controls()).await?;
        self.controls.replace(controls);
        self.consumers.follow();
        Ok(())
    }

    /// Reads the list of buckets, and serves them.
    ///
    /// # Errors
    ///
    /// When the store cannot be read; everything stays as it is.
    pub(crate) async fn read_buckets(&self) -> Result<()> {
        let buckets = poll_call(self.store.buckets()).await?;
        self.consumers.serve(&buckets);
        self.pulls.found(&buckets);
        Ok(())
    }
}

/// Polls the membership of a shared store, whenever the node's state machines request it.
///
/// They do so only while they run and can renew the node's leases. So a node whose mover is stuck
/// falls silent, even if its runtime is well.
pub(crate) struct MembershipPoll {
    orders: Arc<SettingsReader>,
    inbox: Arc<Inbox>,
    me: MemberInfo,
    gauges: Weak<NodeGauges>,
    /// One poll at a time, so that the last result is the latest.
    calls: Mutex<()>,
    /// The versions that were read last; locked while they are read.
    read: Mutex<ReadVersions>,
    /// A poll has failed since they were read: the next result may come from another server.
    was_away: AtomicBool,
    /// The queues that each member consumes, by the last poll; `None` before the first.
    consumed: parking_lot::Mutex<Option<Vec<Arc<[QueueName]>>>>,
    outage: Outage,
}

/// The versions that were read last.
#[derive(Default)]
struct ReadVersions {
    controls_version: Option<u64>,
    buckets_version: Option<u64>,
    /// When everything was last read.
    all_at: Option<Instant>,
}

impl MembershipPoll {
    pub(crate) fn new(
        orders: Arc<SettingsReader>,
        inbox: Arc<Inbox>,
        me: MemberInfo,
        gauges: Weak<NodeGauges>,
    ) -> Self {
        Self {
            orders,
            inbox,
            me,
            gauges,
            calls: Mutex::default(),
            read: Mutex::default(),
            was_away: AtomicBool::default(),
            consumed: parking_lot::Mutex::default(),
            outage: Outage::of("membership"),
        }
    }

    /// Returns whether a member consumes `queue`, by the last poll.
    pub(crate) fn is_consumed(&self, queue: &QueueName) -> bool {
        let consumed = self.consumed();
        let mut members = consumed.iter().flatten();
        members.any(|queues| queues.contains(queue))
    }

    /// Returns whether the members are known: a poll has succeeded.
    pub(crate) fn is_known(&self) -> bool {
        self.consumed().is_some()
    }

    /// Returns the queues that some member consumes, by the last poll.
    pub(crate) fn consumed_queues(&self) -> HashSet<QueueName> {
        let consumed = self.consumed();
        let members = consumed.iter().flatten();
        members.flat_map(|queues| queues.iter().cloned()).collect()
    }

    fn consumed(&self) -> parking_lot::MutexGuard<'_, Option<Vec<Arc<[QueueName]>>>> {
        // Poison is harmless: every change under the lock is one assignment.
        self.consumed.lock()
    }

    /// Polls once, and reads the settings that have changed.
    ///
    /// # Errors
    ///
    /// When the store does not respond.
    pub(crate) async fn call(&self) -> Result<()> {
        let called = {
            let _one = self.calls.lock().await;
            poll_call(self.orders.store.poll_members(self.me.clone())).await
        };
        let membership = match called {
            Ok(membership) => membership,
            Err(error) => {
                self.was_away.store(true, Ordering::Relaxed);
                self.inbox.add(Input::PollFailed);
                return Err(error);
            }
        };
        let members = membership.members;
        if let Some(gauges) = self.gauges.upgrade() {
            gauges.live_nodes(members.len());
        }
        let consumed = members.iter().map(|it| Arc::clone(&it.queues));
        *self.consumed() = Some(consumed.collect());
        self.inbox.add(Input::MembersSeen { members });
        // If they are being read now, the next poll checks again.
        if let Ok(mut read) = self.read.try_lock() {
            let versions = (membership.controls_version, membership.buckets_version);
            self.follow(versions, &mut read).await?;
        }
        Ok(())
    }

    /// Reads what has a new version, and everything once a minute as a fallback.
    ///
    /// A change during the read changes the version again.
    async fn follow(&self, (controls, buckets): (u64, u64), read: &mut ReadVersions) -> Result<()> {
        let now = Instant::now();
        let is_old = read
            .all_at
            .is_none_or(|at| now.duration_since(at) >= ALL_EVERY);
        if is_old || self.was_away.swap(false, Ordering::Relaxed) {
            *read = ReadVersions::default();
        }
        if read.controls_version != Some(controls) {
            self.orders.read_controls().await?;
            read.controls_version = Some(controls);
        }
        if read.buckets_version != Some(buckets) {
            self.orders.read_buckets().await?;
            read.buckets_version = Some(buckets);
        }
        read.all_at.get_or_insert(now);
        Ok(())
    }

    /// Like [`call`](Self::call), in the background.
    pub(crate) async fn poll_in_background(self: Arc<Self>) {
        match self.call().await {
            Ok(()) => self.outage.succeeded(&()),
            Err(error) if error.kind() == ErrorKind::Closed => {} // the bus has stopped meanwhile
            Err(error) => self.outage.failed((), &error),
        }
    }

    /// Leaves the membership: this node has stopped and holds nothing any more.
    pub(crate) async fn leave(&self) {
        let _one = self.calls.lock().await;
        let me = MemberInfo {
            leaves: true,
            ..self.me.clone()
        };
        if let Err(error) = poll_call(self.orders.store.poll_members(me)).await {
            panics::reported(|| tracing::debug!(%error, "failed to leave the membership"));
        }
    }
}
