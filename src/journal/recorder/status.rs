//! The status of a recorder and its journal.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::error::Error;
use crate::metrics::JournalMetrics;
use crate::panics;
use crate::store::{Outbox, OutboxPage};
use crate::time::Timestamp;

/// How the journal of a bus is, and what its recorder has done since the bus started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalStatus {
    /// How many records this bus has loaded. A record that another node has loaded as well counts
    /// here, too; in the journal it is there once.
    pub recorded: u64,
    /// How many records wait in outboxes, as far as this bus has seen.
    pub waiting: u64,
    /// How many records were let go by a full outbox before they were in the journal. Nodes that
    /// share a store may each count the same ones.
    pub dropped: u64,
    /// How many records were damaged in their outbox, and passed over.
    pub damaged: u64,
    /// How long the oldest record waited that was read last; zero when none waits.
    pub lag: Duration,
    /// Since when the journal takes in no records; `None` while it does.
    pub away_since: Option<Timestamp>,
    /// What the journal or the store answered when something failed last; it stays when all is
    /// well again.
    pub last_error: Option<String>,
}

/// The status as the recorder keeps it.
#[derive(Debug)]
pub(super) struct SharedStatus {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    status: JournalStatus,
    /// How many wait in each outbox that has any.
    waiting: BTreeMap<Outbox, u64>,
    /// Until the recorder ends.
    metrics: Option<JournalMetrics>,
}

impl State {
    fn tell(&self, what: impl FnOnce(&JournalMetrics)) {
        if let Some(metrics) = &self.metrics {
            what(metrics);
        }
    }
}

impl SharedStatus {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                metrics: Some(JournalMetrics::new()),
                ..State::default()
            }),
        }
    }

    /// The recorder has ended: its gauges are told no more, though the bus may still be known.
    pub(super) fn ended(&self) {
        let metrics = self.state().metrics.take();
        drop(metrics);
    }

    pub(super) fn status(&self) -> JournalStatus {
        self.state().status.clone()
    }

    /// An outbox was read.
    pub(super) fn seen(&self, outbox: &Outbox, page: &OutboxPage) {
        self.wait_in(outbox, page.next.saturating_sub(page.first));
    }

    /// So many records of an outbox were damaged.
    pub(super) fn damaged(&self, outbox: &Outbox, records: u64) {
        if records > 0 {
            self.state().status.damaged += records;
            panics::reported(|| tracing::error!(%outbox, records, "skipped damaged records"));
        }
    }

    /// So many records of an outbox wait.
    pub(super) fn wait_in(&self, outbox: &Outbox, waiting: u64) {
        let mut state = self.state();
        match waiting {
            0 => state.waiting.remove(outbox),
            some => state.waiting.insert(outbox.clone(), some),
        };
        state.status.waiting = state.waiting.values().sum();
        state.tell(|metrics| metrics.waiting(state.status.waiting));
    }

    /// The oldest of what was read has waited so long.
    pub(super) fn lags(&self, lag: Duration) {
        let mut state = self.state();
        state.status.lag = lag;
        state.tell(|metrics| metrics.lag(lag));
    }

    /// The journal has taken in so many records, at `now`.
    pub(super) fn recorded(&self, records: u64, now: Timestamp) {
        let mut state = self.state();
        state.status.recorded += records;
        JournalMetrics::recorded(records);
        Self::is_back(&mut state, now);
    }

    /// Nothing waits at `now`: what there was is in the journal, by this bus or by another one.
    pub(super) fn nothing_waits(&self, now: Timestamp) {
        let mut state = self.state();
        state.status.lag = Duration::ZERO;
        state.tell(|metrics| metrics.lag(Duration::ZERO));
        Self::is_back(&mut state, now);
    }

    /// The journal has taken in what it was given.
    fn is_back(state: &mut State, now: Timestamp) {
        if let Some(since) = state.status.away_since.take() {
            let waiting = state.status.waiting;
            let away_for = now.since(since);
            panics::reported(|| tracing::info!(?away_for, waiting, "journal available again"));
            state.tell(|metrics| metrics.away(false));
        }
    }

    /// So many records of an outbox were let go before they were in the journal.
    pub(super) fn dropped(&self, outbox: &Outbox, records: u64) {
        if records == 0 {
            return;
        }
        self.state().status.dropped += records;
        panics::reported(|| {
            JournalMetrics::dropped(records);
            tracing::error!(
                %outbox,
                records,
                "a full outbox has let go of records that are not in the journal: they are lost; \
                 see what keeps the journal, or give the outbox more room (records.outbox_max, on \
                 Redis up to its share of all records)"
            );
        });
    }

    /// The journal has failed, at `now`.
    pub(super) fn failed(&self, error: &Error, now: Timestamp) {
        let mut state = self.state();
        state.status.last_error = Some(error.to_string());
        if state.status.away_since.is_none() {
            state.status.away_since = Some(now);
            let waiting = state.status.waiting;
            panics::reported(|| {
                tracing::warn!(
                    %error,
                    waiting,
                    "journal unavailable; records stay in the store and are retried"
                );
            });
            state.tell(|metrics| metrics.away(true));
        }
    }

    /// The store could not be read or trimmed; it says so itself, at length.
    pub(super) fn store_failed(&self, error: &Error) {
        self.state().status.last_error = Some(error.to_string());
        panics::reported(|| tracing::debug!(%error, "failed to read or trim an outbox"));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
