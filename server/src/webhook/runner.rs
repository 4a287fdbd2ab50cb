//! The runner of a target: its circuit, which admits requests, and what is shown of it.

use std::sync::Arc;
use std::time::Duration;

use duly::QueueName;
use duly::time::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Deps;
use super::circuit::{Circuit, CircuitState, Moment};
use super::counters::{OpenCircuit, TargetLabels};
use super::failure::Failure;
use super::in_flight::InFlight;
use super::places::RequestPlace;
use super::target::{Disabled, Target, TargetKey};
use super::targets;
use crate::bus::Pool;
use crate::shared::Table;

/// A runner.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) key: TargetKey,
    pub(super) pool: Pool,
    pub(super) deps: Arc<Deps>,
    pub(super) labels: TargetLabels,
    /// The namespace of the pool, by which it shares places.
    pub(super) namespace: Arc<str>,
    pub(super) queue: QueueName,
    live: Mutex<Live>,
    pub(super) in_flight: Arc<InFlight>,
    /// The target or its circuit has changed.
    pub(super) changed: Notify,
    pub(super) cancelled: CancellationToken,
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

    /// Returns its target, what is cancelled with that, and the state of its circuit.
    pub(super) fn current(&self) -> (Arc<Target>, CancellationToken, CircuitState) {
        let live = self.live();
        let target = Arc::clone(&live.target);
        (target, live.replaced.clone(), live.circuit.state())
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

    /// Shows why no request could be made to a target.
    pub(super) fn waits(&self, target: &Target, why: &str) {
        tracing::warn!(webhook = %self.key, why, "webhook waits");
        let mut live = self.live();
        if live.target.row.revision == target.row.revision {
            let (at, text) = (Moment::now().shown, why.to_owned());
            live.last_error = Some(LastError { at, text });
        }
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
            webhook = %self.key, url = target.logged_url(),
            "webhook disabled: the target says that it is gone (410)"
        );
        let stored = match serde_json::to_string(&disabled) {
            Ok(text) => self.store_disabled(&text).await,
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = stored {
            tracing::error!(webhook = %self.key, error, "webhook is disabled on this server only");
        }
    }

    /// Stores that the target is gone; the webhook may have been removed while it was asked.
    async fn store_disabled(&self, text: &str) -> Result<(), String> {
        let (key, shared) = (self.key.to_string(), &self.deps.shared);
        let stored = shared.put(Table::WebhooksDisabled, &key, text).await;
        stored.map_err(|error| error.to_string())?;
        if let Err(error) = targets::remove_orphan(shared, &key).await {
            tracing::warn!(webhook = %key, %error, "whether the webhook is gone was not looked up");
        }
        Ok(())
    }
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
        let (key, url) = (&runner.key, live.target.logged_url());
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
