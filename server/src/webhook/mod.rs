//! Webhooks: queues whose events are delivered by POST to a URL.
//!
//! ```text
//!  /v1 ----> shared state: targets
//!                 |  each server reads it again when its version changes
//!                 v
//!             runner of a target: circuit, pace, places
//!                 |  leases events
//!                 v
//!             delivery: signed POST ----> settlement: done, retry, dead letter
//! ```
//!
//! [`target`] is a target as stored and as used, [`address`] the check of what may be reached, which
//! [`resolver`] makes for names, with few [`lookups`] at a time; [`vault`] encrypts what is stored; [`exchange`] is one request, signed with a [`secret`], and
//! [`failure`] what went wrong with it; [`circuit`] and [`pace`] decide when a [`runner`] may start a
//! [`delivery`], its deliveries are [`in_flight`], and namespaces share the [`places`] of its requests. Concurrency and circuit belong to
//! each server, rates are shared by all.

mod address;
mod circuit;
mod counters;
mod delivery;
mod exchange;
mod failure;
mod in_flight;
mod lookups;
mod pace;
mod places;
mod polls;
mod resolver;
mod retry_after;
mod runner;
mod secret;
mod target;
mod targets;
mod vault;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::circuit::CircuitLimits;
pub(crate) use self::circuit::CircuitState;
use self::exchange::Exchange;
use self::lookups::Lookups;
use self::places::RequestPlaces;
use self::runner::Runner;
pub(crate) use self::runner::RunnerStatus;
pub(crate) use self::secret::Secret;
pub(crate) use self::target::{
    HEADER_LEN_MAX, HEADER_NAME_LEN_MAX, HEADERS_MAX, RESERVED, RESERVED_PREFIXES, Target,
    TargetKey, TargetRow,
};
pub(crate) use self::targets::SetResult;
use self::vault::TargetVault;
use crate::pools::Pools;
use crate::settings::WebhookSettings;
use crate::shared::{Result, SharedState};

/// The most targets of a shared state, and of each namespace in it.
pub(crate) const TARGETS_MAX: usize = 1_000;
pub(crate) const TARGETS_OF_NAMESPACE_MAX: usize = 250;
/// How many of all are left to namespaces that have fewer than so many.
const TARGETS_RESERVED: usize = 250;
const TARGETS_FEW: usize = 10;
/// How often a server looks whether targets have changed.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// How long deliveries may take to hand their events back when the grace period is over.
const HAND_BACK_MAX: Duration = Duration::from_secs(5);

/// What all runners share.
#[derive(Debug)]
struct Deps {
    exchange: Exchange,
    shared: SharedState,
    vault: TargetVault,
    circuit: CircuitLimits,
    ttr: Duration,
    /// Places for requests of this server.
    places: Arc<RequestPlaces>,
    /// The runners, and the deliveries in flight.
    tasks: TaskTracker,
    /// Cancelled when the server stops: no more deliveries start.
    stopping: CancellationToken,
    /// Cancelled when its grace period is over: deliveries hand their events back.
    aborted: CancellationToken,
}

/// The webhooks of a server; when it is dropped, they end.
pub(crate) struct Webhooks {
    inner: Arc<Inner>,
    /// Held by the request that adds a target, so that what it has counted of all namespaces holds.
    adding: Mutex<()>,
    _stop: DropGuard,
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

struct Inner {
    deps: Arc<Deps>,
    pools: Pools,
    /// The runners, and the version of the shared state that they are of.
    runners: Mutex<Runners>,
    /// A request of this server has changed a target.
    changed: Notify,
    /// Held while what is noted of targets that are no more is removed.
    forgetting: Arc<Mutex<()>>,
}

#[derive(Default)]
struct Runners {
    version: Option<u64>,
    by_key: BTreeMap<TargetKey, Arc<Runner>>,
}

impl Webhooks {
    /// Starts the delivery of all targets.
    pub(crate) fn start(settings: &WebhookSettings, pools: &Pools, shared: &SharedState) -> Self {
        Self::start_with(settings, pools, shared, resolver::of_system())
    }

    fn start_with(
        settings: &WebhookSettings,
        pools: &Pools,
        shared: &SharedState,
        lookups: Lookups,
    ) -> Self {
        // Every pool has the keys of the settings.
        let keys = pools.iter().next().map(|pool| pool.bus().keys().clone());
        let stopping = CancellationToken::new();
        let deps = Deps {
            exchange: Exchange::new(settings, lookups),
            shared: shared.clone(),
            vault: TargetVault::new(keys.unwrap_or_default()),
            circuit: CircuitLimits::new(settings),
            ttr: settings.ttr(),
            places: RequestPlaces::new(settings.concurrency),
            tasks: TaskTracker::new(),
            stopping: stopping.clone(),
            aborted: CancellationToken::new(),
        };
        let inner = Arc::new(Inner {
            deps: Arc::new(deps),
            pools: pools.clone(),
            runners: Mutex::default(),
            changed: Notify::new(),
            forgetting: Arc::default(),
        });
        tokio::spawn(Arc::clone(&inner).watch());
        Self {
            inner,
            adding: Mutex::default(),
            _stop: stopping.drop_guard(),
        }
    }

    /// Stops: starts no more requests, waits for those that run within the grace period, and hands
    /// the events of the others back.
    pub(crate) async fn stop(&self, grace: Duration) {
        let deps = &self.inner.deps;
        deps.stopping.cancel();
        deps.tasks.close();
        if timeout(grace, deps.tasks.wait()).await.is_ok() {
            return;
        }
        let cut_off = deps.tasks.len();
        tracing::warn!(cut_off, ?grace, "deliveries did not end in time");
        deps.aborted.cancel();
        if timeout(HAND_BACK_MAX, deps.tasks.wait()).await.is_err() {
            tracing::error!("events of webhooks not handed back; they come back with their leases");
        }
    }

    /// Returns what a target shows of itself on this server, if it runs here.
    pub(crate) async fn status(&self, key: &TargetKey) -> Option<RunnerStatus> {
        let runners = self.inner.runners.lock().await;
        runners.by_key.get(key).map(|runner| runner.status())
    }

    /// Checks the URL of a target.
    pub(crate) fn check(&self, target: &Target) -> std::result::Result<(), String> {
        self.inner.deps.exchange.check(target)
    }

    fn deps(&self) -> &Deps {
        &self.inner.deps
    }

    fn shared(&self) -> &SharedState {
        &self.deps().shared
    }

    /// Takes a change over on this server at once.
    async fn refresh(&self) {
        match self.inner.reconcile().await {
            Ok(orphans) => self.inner.forget(orphans),
            Err(error) => {
                // It is stored, and the watch takes it over.
                tracing::warn!(%error, "change of a webhook not yet taken over");
                self.inner.changed.notify_one();
            }
        }
    }
}

impl Inner {
    /// Follows the changes of targets until the server stops.
    async fn watch(self: Arc<Self>) {
        let mut has_failed = false;
        loop {
            let reconciled = self.reconcile().await;
            match &reconciled {
                Err(error) if !has_failed => {
                    tracing::warn!(%error, "webhooks cannot be read; those known go on");
                }
                Ok(_) if has_failed => tracing::info!("webhooks can be read again"),
                Err(_) | Ok(_) => {}
            }
            has_failed = reconciled.is_err();
            self.forget(reconciled.unwrap_or_default());
            tokio::select! {
                () = self.deps.stopping.cancelled() => return,
                () = self.changed.notified() => {}
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Makes the runners those of the stored targets; returns the keys of what is noted of targets that
    /// are no more, for whoever does not hold the runners.
    async fn reconcile(&self) -> Result<Vec<String>> {
        let mut runners = self.runners.lock().await;
        let version = self.deps.shared.version().await?;
        if runners.version == Some(version) || self.deps.stopping.is_cancelled() {
            return Ok(Vec::new());
        }
        let (mut stored, orphans) = targets::read_all(&self.deps).await?;
        runners.by_key.retain(|key, runner| {
            let is_stored = stored.contains_key(key);
            if !is_stored {
                runner.cancel();
            }
            is_stored
        });
        for (key, runner) in &runners.by_key {
            if let Some(target) = stored.remove(key) {
                runner.update(target);
            }
        }
        for (key, target) in stored {
            if let Some(runner) = self.runner(&key, target) {
                self.deps.tasks.spawn(Arc::clone(&runner).run());
                runners.by_key.insert(key, runner);
            }
        }
        runners.version = Some(version);
        Ok(orphans)
    }

    /// Removes what is noted of targets that are no more, unless that is being done; nobody waits for it.
    fn forget(&self, orphans: Vec<String>) {
        if orphans.is_empty() {
            return;
        }
        if let Ok(turn) = Arc::clone(&self.forgetting).try_lock_owned() {
            let shared = self.deps.shared.clone();
            tokio::spawn(async move {
                targets::remove_orphans(&shared, &orphans).await;
                drop(turn);
            });
        }
    }

    /// Returns a runner, unless this server does not have the pool.
    fn runner(&self, key: &TargetKey, target: Target) -> Option<Arc<Runner>> {
        let pool = self.pools.get(&key.pool)?;
        match pool.queue(&key.namespace, &key.queue) {
            Ok(queue) => {
                let (queue, deps) = (queue.name().clone(), Arc::clone(&self.deps));
                let runner = Runner::new(key.clone(), pool.clone(), queue, target, deps);
                Some(Arc::new(runner))
            }
            Err(error) => {
                tracing::error!(webhook = %key, %error, "webhook of a queue that cannot be");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
