//! The circuit of a target: a state machine that stops requests to a target that is dead.
//!
//! ```text
//!            failures in a row              rest is over
//!  CLOSED ----------------------> OPEN ---------------------> PROBING
//!    ^                             ^                             |
//!    |                             `--- it failed: longer rest --|
//!    `------------------------ it succeeded ---------------------'
//! ```

use std::time::Duration;

use duly::__server::timing::Backoff;
use duly::time::Timestamp;
use tokio::time::Instant;

use crate::settings::WebhookSettings;

/// The part of a rest that chance takes away, so that servers do not probe at the same time.
const JITTER: f64 = 0.2;

/// The state of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CircuitState {
    /// Requests are made.
    Closed,
    /// No request is made before this time.
    Open(Instant),
    /// One request is made, to learn whether the target is back.
    Probing,
}

/// A circuit.
#[derive(Debug)]
pub(super) struct Circuit {
    limits: CircuitLimits,
    state: CircuitState,
    /// When the state began.
    since: Timestamp,
    /// When the next probe is due, while it is open.
    next_probe: Option<Timestamp>,
    /// Failures in a row.
    failures: u32,
    /// How many probes have failed since it opened.
    failed_probes: u32,
}

/// When a circuit opens, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct CircuitLimits {
    failures: u32,
    rest: Duration,
    rest_max: Duration,
    free_probes: u32,
}

impl CircuitLimits {
    pub(super) fn new(settings: &WebhookSettings) -> Self {
        Self {
            failures: settings.circuit_failures,
            rest: Duration::from_millis(settings.circuit_rest_ms),
            rest_max: Duration::from_millis(settings.circuit_rest_max_ms),
            free_probes: settings.circuit_free_probes,
        }
    }

    /// The rest after some failed probes; `chance` is 0 to 1.
    fn rest_after(&self, failed_probes: u32, chance: f64) -> Duration {
        let rest = Backoff::new(self.rest, self.rest_max).after(failed_probes.saturating_add(1));
        rest.mul_f64(1.0 - JITTER * chance.clamp(0.0, 1.0))
    }
}

/// The time, by both clocks: to wait, and to show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) at: Instant,
    pub(super) shown: Timestamp,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self {
            at: Instant::now(),
            shown: crate::clock::now(),
        }
    }

    fn after(self, delay: Duration) -> Self {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let shown_ms = self.shown.as_millis().saturating_add(delay_ms);
        Self {
            at: self.at + delay,
            shown: Timestamp::from_millis(shown_ms),
        }
    }
}

impl Circuit {
    pub(super) fn new(limits: CircuitLimits, now: Moment) -> Self {
        Self {
            limits,
            state: CircuitState::Closed,
            since: now.shown,
            next_probe: None,
            failures: 0,
            failed_probes: 0,
        }
    }

    pub(super) fn state(&self) -> CircuitState {
        self.state
    }

    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    pub(super) fn next_probe(&self) -> Option<Timestamp> {
        self.next_probe
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether a probe that has just failed without a response costs no attempt.
    pub(super) fn is_probe_free(&self) -> bool {
        self.failed_probes <= self.limits.free_probes
    }

    fn enter(&mut self, state: CircuitState, now: Moment) {
        self.state = state;
        self.since = now.shown;
        self.next_probe = None;
    }

    /// Admits a request, or not; the request that it admits while it is open is its probe, and
    /// returns `Some(true)`.
    pub(super) fn admit(&mut self, now: Moment) -> Option<bool> {
        match self.state {
            CircuitState::Closed => Some(false),
            CircuitState::Open(until) if until <= now.at => {
                self.enter(CircuitState::Probing, now);
                Some(true)
            }
            CircuitState::Open(_) | CircuitState::Probing => None,
        }
    }

    /// Notes a success; returns whether the state has changed.
    pub(super) fn succeeded(&mut self, now: Moment) -> bool {
        let was_closed = self.state == CircuitState::Closed;
        self.failures = 0;
        self.failed_probes = 0;
        if !was_closed {
            self.enter(CircuitState::Closed, now);
        }
        !was_closed
    }

    /// Notes a failure; returns whether the state has changed.
    pub(super) fn failed(&mut self, is_probe: bool, now: Moment, chance: f64) -> bool {
        self.failures = self.failures.saturating_add(1);
        match self.state {
            CircuitState::Closed if self.failures >= self.limits.failures => {
                self.open(now, chance);
                true
            }
            CircuitState::Probing if is_probe => {
                self.failed_probes = self.failed_probes.saturating_add(1);
                self.open(now, chance);
                true
            }
            // A request from before it opened says nothing new.
            CircuitState::Closed | CircuitState::Open(_) | CircuitState::Probing => false,
        }
    }

    fn open(&mut self, now: Moment, chance: f64) {
        let rest = self.limits.rest_after(self.failed_probes, chance);
        let until = now.after(rest);
        self.enter(CircuitState::Open(until.at), now);
        self.next_probe = Some(until.shown);
    }

    /// Ends a probe that has learned nothing: the next may begin at once.
    pub(super) fn abandon_probe(&mut self, now: Moment) {
        if self.state == CircuitState::Probing {
            self.enter(CircuitState::Open(now.at), now);
            self.next_probe = Some(now.shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuit(failures: u32) -> (Circuit, Moment) {
        let limits = CircuitLimits {
            failures,
            rest: Duration::from_secs(1),
            rest_max: Duration::from_secs(300),
            free_probes: 2,
        };
        let now = Moment::now();
        (Circuit::new(limits, now), now)
    }

    #[tokio::test]
    async fn a_webhook_circuit_opens_after_failures_in_a_row() {
        let (mut circuit, now) = circuit(3);
        assert!(!circuit.failed(false, now, 0.0));
        assert!(!circuit.failed(false, now, 0.0));
        circuit.succeeded(now); // so they are not in a row
        assert!(!circuit.failed(false, now, 0.0));
        assert!(!circuit.failed(false, now, 0.0));
        assert_eq!(circuit.admit(now), Some(false));
        assert!(circuit.failed(false, now, 0.0));
        assert_eq!(circuit.admit(now), None, "it rests");
        assert_eq!(
            circuit.next_probe(),
            Some(now.after(Duration::from_secs(1)).shown)
        );
    }

    #[tokio::test]
    async fn a_webhook_circuit_probes_once_and_rests_longer_each_time() {
        let (mut circuit, mut now) = circuit(1);
        circuit.failed(false, now, 0.0);
        for rest in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let early = now.after(Duration::from_millis(rest * 1_000 - 1));
            assert_eq!(circuit.admit(early), None);
            now = now.after(Duration::from_secs(rest));
            assert_eq!(circuit.admit(now), Some(true));
            assert_eq!(circuit.admit(now), None, "one probe at a time");
            assert!(!circuit.failed(false, now, 0.0), "from before it opened");
            assert!(circuit.failed(true, now, 0.0));
        }
        now = now.after(Duration::from_secs(300));
        assert_eq!(circuit.admit(now), Some(true));
        assert!(circuit.succeeded(now));
        assert_eq!(circuit.admit(now), Some(false));
        assert!(circuit.failed(false, now, 1.0));
        assert_eq!(
            circuit.next_probe(),
            Some(now.after(Duration::from_millis(800)).shown),
            "short again, and a part is left to chance"
        );
    }

    #[tokio::test]
    async fn free_webhook_probes_end_until_one_succeeds() {
        let (mut circuit, mut now) = circuit(1);
        for _ in 0..2 {
            circuit.failed(false, now, 0.0);
            for is_free in [true, true, false, false] {
                now = now.after(Duration::from_secs(300));
                assert_eq!(circuit.admit(now), Some(true));
                circuit.failed(true, now, 0.0);
                assert_eq!(circuit.is_probe_free(), is_free);
            }
            now = now.after(Duration::from_secs(300));
            assert_eq!(circuit.admit(now), Some(true));
            circuit.succeeded(now);
        }
    }

    #[tokio::test]
    async fn an_abandoned_webhook_probe_may_be_repeated() {
        let (mut circuit, now) = circuit(1);
        circuit.failed(false, now, 0.0);
        let later = now.after(Duration::from_secs(1));
        assert_eq!(circuit.admit(later), Some(true));
        circuit.abandon_probe(later);
        assert_eq!(circuit.admit(later), Some(true));
    }
}
