//! The runner of a target: pulls events of its queue, as many as may be sent, and starts their
//! deliveries.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use duly::lease::{EncodedPayload, Leased};
use duly::time::Timestamp;
use duly::{ErrorKind, QueueName};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Deps;
use super::circuit::{Circuit, CircuitState, Moment};
use super::counters::{OpenCircuit, TargetLabels};
use super::delivery::deliver;
use super::failure::Failure;
use super::in_flight::InFlight;
use super::pace::Pace;
use super::places::RequestPlace;
use super::target::{Disabled, Target, TargetKey};
use crate::bus::Pool;
use crate::shared::Table;

/// How long a poll is parked before it is renewed.
const POLL: Duration = Duration::from_secs(600);
/// The most events of one poll.
const BATCH_MAX: usize = 100;
/// How long a poll that has places may take: a store that hangs would keep them from others.
const PLACED_MAX: Duration = Duration::from_millis(250);
/// The pause after a failed poll.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// A runner.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) key: TargetKey,
    pub(super) pool: Pool,
    pub(super) deps: Arc<Deps>,
    pub(super) labels: TargetLabels,
    /// The namespace of the pool, by which it shares places.
    namespace: Arc<str>,
    queue: QueueName,
    live: Mutex<Live>,
    in_flight: Arc<InFlight>,
    /// The target or its circuit has changed.
    changed: Notify,
    cancelled: CancellationToken,
}

/// What changes while it runs.
#[derive(Debug)]
struct Live {
    target: Arc<Target>,
    /// Cancelled when there is another target, or none.
    replaced: CancellationToken,
    circuit: Circuit,
    open: Option<OpenCircuit>,
    last_error: Option<LastError>,
}

impl Live {
    /// Takes another target; deliveries to the one before that wait for their turn end.
    fn replace(&mut self, target: Target, replaced: CancellationToken) {
        self.target = Arc::new(target);
        std::mem::replace(&mut self.replaced, replaced).cancel();
    }
}

/// The last failure of a target.
#[derive(Clone, Debug)]
pub(crate) struct LastError {
    pub(crate) at: Timestamp,
    pub(crate) text: String,
}

/// What a runner shows of itself.
#[derive(Clone, Debug)]
pub(crate) struct RunnerStatus {
    pub(crate) state: CircuitState,
    pub(crate) since: Timestamp,
    pub(crate) next_probe: Option<Timestamp>,
    pub(crate) failures: u32,
    pub(crate) last_error: Option<LastError>,
    pub(crate) in_flight: usize,
}

impl Runner {
    pub(super) fn new(
        key: TargetKey,
        pool: Pool,
        queue: QueueName,
        target: Target,
        deps: Arc<Deps>,
    ) -> Self {
        let circuit = Circuit::new(deps.circuit, Moment::now());
        let cancelled = deps.stopping.child_token();
        Self {
            labels: TargetLabels::new(&key),
            namespace: TargetKey::prefix(&key.pool, &key.namespace).into(),
            key,
            pool,
            deps,
            queue,
            live: Mutex::new(Live {
                target: Arc::new(target),
                replaced: cancelled.child_token(),
                circuit,
                open: None,
                last_error: None,
            }),
            in_flight: Arc::default(),
            changed: Notify::new(),
            cancelled,
        }
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock()
    }

    /// Takes a changed target; one of another revision starts anew.
    pub(super) fn update(&self, target: Target) {
        {
            let mut live = self.live();
            if live.target.row.revision == target.row.revision {
                // That it is gone may not be stored yet.
                if live.target.disabled.is_some() || target.disabled == live.target.disabled {
                    return;
                }
            } else {
                live.circuit = Circuit::new(self.deps.circuit, Moment::now());
                live.open = None;
                live.last_error = None;
            }
            live.replace(target, self.cancelled.child_token());
        }
        self.changed.notify_one();
    }

    /// Starts no more deliveries; those that run end by themselves.
    pub(super) fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Waits for a place for a request.
    pub(super) async fn place(&self) -> RequestPlace {
        self.deps.places.take(&self.namespace).await
    }

    pub(super) fn status(&self) -> RunnerStatus {
        let live = self.live();
        RunnerStatus {
            state: live.circuit.state(),
            since: live.circuit.since(),
            next_probe: live.circuit.next_probe(),
            failures: live.circuit.failures(),
            last_error: live.last_error.clone(),
            in_flight: self.in_flight.count(),
        }
    }

    /// Pulls and delivers until it is cancelled.
    pub(super) async fn run(self: Arc<Self>) {
        let mut pace = None;
        loop {
            tokio::select! {
                biased;
                () = self.cancelled.cancelled() => return,
                // What a poll has leased is handed back when it is dropped.
                () = self.changed.notified() => {}
                () = self.turn(&mut pace) => {}
            }
        }
    }

    /// Starts the deliveries that may start now, or waits. It leases events for places that it has, so
    /// that they wait in their queue and not in memory; only for the next one it waits without a place.
    async fn turn(self: &Arc<Self>, pace: &mut Option<Pace>) {
        let (target, replaced, state) = {
            let live = self.live();
            let target = Arc::clone(&live.target);
            (target, live.replaced.clone(), live.circuit.state())
        };
        if target.is_idle() {
            return pending().await;
        }
        let most = match state {
            CircuitState::Closed => target.row.concurrency,
            CircuitState::Open(until) if until <= Instant::now() => 1,
            CircuitState::Open(until) => return sleep_until(until).await,
            CircuitState::Probing => return pending().await,
        };
        let free = self.in_flight.free(most).await;
        let paced = paced(pace, target.row.rate).await;
        let most = free.min(paced).min(BATCH_MAX);
        let mut places = self.deps.places.take_some(&self.namespace, most).await;
        let mut lease = pin!(self.lease(places.len(), Duration::ZERO));
        let mut leased = match timeout(PLACED_MAX, &mut lease).await {
            Ok(leased) => leased,
            // The store takes its time, for which no place is kept from others.
            Err(_) => {
                places.clear();
                lease.await
            }
        };
        if leased.as_ref().is_ok_and(Vec::is_empty) {
            places.clear();
            leased = self.lease(1, POLL).await;
        }
        let mut leased = match leased {
            Ok(leased) => leased,
            Err(error) => {
                drop(places);
                if error.kind() == ErrorKind::Closed {
                    return pending().await;
                }
                tracing::warn!(webhook = %self.key, %error, "poll of a webhook failed");
                return sleep(FAILED_PAUSE).await;
            }
        };
        let lacking = leased.len().saturating_sub(places.len());
        places.extend(self.deps.places.take_free(&self.namespace, lacking));
        for event in leased.split_off(leased.len().min(places.len().max(1))) {
            self.deps.tasks.spawn(async move { event.release().await });
        }
        if let Some(pace) = pace {
            pace.take(leased.len());
        }
        for event in leased {
            let slot = self.in_flight.begin(places.pop());
            let of = (Arc::clone(&target), replaced.clone());
            let delivery = deliver(Arc::clone(self), of, event, slot);
            self.deps.tasks.spawn(delivery);
        }
    }

    /// Leases up to `most` events, now or within a time.
    async fn lease(
        &self,
        most: usize,
        wait: Duration,
    ) -> duly::Result<Vec<Leased<EncodedPayload>>> {
        let queues = [self.queue.clone()];
        self.pool.lease(&queues, most, self.deps.ttr, wait).await
    }

    /// Admits a request to a target, unless the circuit rests, the target is idle, replaced or
    /// deleted, or the server stops.
    pub(super) fn admit(self: &Arc<Self>, target: &Target) -> Option<Admission> {
        let mut live = self.live();
        let is_replaced = live.target.row.revision != target.row.revision;
        if self.cancelled.is_cancelled() || is_replaced || live.target.is_idle() {
            return None;
        }
        let is_probe = live.circuit.admit(Moment::now())?;
        if is_probe {
            tracing::info!(webhook = %self.key, "webhook circuit probes");
        }
        Some(Admission {
            runner: Arc::clone(self),
            revision: live.target.row.revision,
            is_probe,
            is_resolved: false,
        })
    }

    /// Disables the target, on every server: it has said that it is gone.
    pub(super) async fn disable(&self, target: &Target, reason: &str) {
        let revision = target.row.revision;
        let disabled = Disabled {
            revision,
            reason: reason.to_owned(),
            at_ms: crate::clock::now().as_millis(),
        };
        {
            let mut live = self.live();
            if live.target.row.revision != revision || live.target.disabled.is_some() {
                return;
            }
            let Ok(target) = Target::new(target.row.clone(), Some(disabled.clone())) else {
                return; // never: it was one before
            };
            live.replace(target, self.cancelled.child_token());
        }
        self.changed.notify_one();
        tracing::warn!(
            webhook = %self.key, url = target.shown_url(),
            "webhook disabled: the target says that it is gone (410)"
        );
        let stored = match serde_json::to_string(&disabled) {
            Ok(text) => {
                let key = self.key.to_string();
                let put = self.deps.shared.put(Table::WebhooksDisabled, &key, &text);
                put.await.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = stored {
            tracing::error!(webhook = %self.key, error, "webhook is disabled on this server only");
        }
    }
}

/// Waits for the pace of a target; returns how many requests may begin.
async fn paced(pace: &mut Option<Pace>, rate: Option<f64>) -> usize {
    let Some(rate) = rate else {
        *pace = None;
        return usize::MAX;
    };
    #[allow(clippy::float_cmp)] // it is the same setting, or another
    let is_other = pace.as_ref().is_none_or(|pace| pace.rate() != rate);
    if is_other {
        *pace = Some(Pace::new(rate, Instant::now()));
    }
    while let Some(pace) = pace {
        match pace.ready(Instant::now()) {
            Ok(many) => return many,
            Err(wait) => sleep(wait).await,
        }
    }
    usize::MAX
}

/// A request that the circuit has admitted; a probe that is dropped has learned nothing.
#[derive(Debug)]
pub(super) struct Admission {
    runner: Arc<Runner>,
    revision: u64,
    is_probe: bool,
    is_resolved: bool,
}

impl Admission {
    /// Notes how the request went; returns the rest that began, if it was a probe that failed and
    /// that costs no attempt where there was no response.
    pub(super) fn resolve(mut self, result: Result<(), &Failure>) -> Option<Duration> {
        self.is_resolved = true;
        let (now, runner) = (Moment::now(), &self.runner);
        let mut live = runner.live();
        if live.target.row.revision != self.revision {
            return None; // it concerns a target that is no more
        }
        if let Err(failure) = result {
            let (at, text) = (now.shown, failure.text.clone());
            live.last_error = Some(LastError { at, text });
        }
        let failure = result.err().filter(|failure| failure.kind.is_of_target());
        let has_changed = match failure {
            None => live.circuit.succeeded(now),
            Some(_) => live.circuit.failed(self.is_probe, now, fastrand::f64()),
        };
        let rest = match live.circuit.state() {
            CircuitState::Open(until) if self.is_probe && live.circuit.is_probe_free() => {
                Some(until - now.at)
            }
            _ => None,
        };
        if !has_changed {
            return rest;
        }
        let (key, url) = (&runner.key, live.target.shown_url());
        match failure {
            None => {
                live.open = None;
                tracing::info!(webhook = %key, url, "webhook circuit closed");
            }
            Some(failure) => {
                live.open
                    .get_or_insert_with(|| runner.labels.open_circuit());
                let (failures, why) = (live.circuit.failures(), failure.kind.label());
                let rest_ms = live
                    .circuit
                    .next_probe()
                    .map_or(0, |at| at.as_millis().saturating_sub(now.shown.as_millis()));
                tracing::warn!(webhook = %key, url, failures, why, rest_ms, "webhook circuit opened");
            }
        }
        drop(live);
        runner.changed.notify_one();
        rest
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if self.is_probe && !self.is_resolved {
            self.runner.live().circuit.abandon_probe(Moment::now());
            self.runner.changed.notify_one();
        }
    }
}
