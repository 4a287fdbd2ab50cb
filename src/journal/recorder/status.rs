//! The status of a recorder and its journal.

use std::collections::BTreeMap;
use std::sync::Arc;
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
    metrics: Option<Arc<JournalMetrics>>,
}

impl State {
    /// The journal has taken in what it was given, at `now`. Returns for how long it had not, if so.
    fn is_back(&mut self, now: Timestamp) -> Option<Duration> {
        let since = self.status.away_since.take()?;
        Some(now.since(since))
    }
}

/// The metrics, once the state is free: what they and the log call is not of the bus, may look at the
/// status, and may panic.
struct Metrics(Option<Arc<JournalMetrics>>);

impl Metrics {
    fn beside(state: MutexGuard<'_, State>) -> Self {
        let metrics = state.metrics.clone();
        drop(state);
        Self(metrics)
    }

    fn tell(&self, what: impl FnOnce(&JournalMetrics)) {
        if let Some(metrics) = &self.0 {
            panics::reported(|| what(metrics));
        }
    }

    fn tell_back(&self, away_for: Option<Duration>, waiting: u64) {
        if let Some(away_for) = away_for {
            panics::reported(|| tracing::info!(?away_for, waiting, "journal available again"));
            self.tell(|metrics| metrics.away(false));
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        let metrics = self.0.take();
        panics::reported(|| drop(metrics));
    }
}

impl SharedStatus {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                metrics: Some(Arc::new(JournalMetrics::new())),
                ..State::default()
            }),
        }
    }

    /// The recorder has ended: its gauges are told no more, though the bus may still be known.
    pub(super) fn ended(&self) {
        let metrics = Metrics(self.state().metrics.take());
        drop(metrics); // once the state is free
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
        let before = match waiting {
            0 => state.waiting.remove(outbox),
            some => state.waiting.insert(outbox.clone(), some),
        };
        // Not added up anew: there may be as many as buckets, and each of them is noted in a pass.
        let all = state.status.waiting + waiting - before.unwrap_or(0);
        state.status.waiting = all;
        Metrics::beside(state).tell(|metrics| metrics.waiting(all));
    }

    /// The oldest of what was read has waited so long.
    pub(super) fn lags(&self, lag: Duration) {
        let mut state = self.state();
        state.status.lag = lag;
        Metrics::beside(state).tell(|metrics| metrics.lag(lag));
    }

    /// The journal has taken in so many records, at `now`.
    pub(super) fn recorded(&self, records: u64, now: Timestamp) {
        let mut state = self.state();
        state.status.recorded += records;
        let (away_for, waiting) = (state.is_back(now), state.status.waiting);
        let metrics = Metrics::beside(state);
        panics::reported(|| JournalMetrics::recorded(records));
        metrics.tell_back(away_for, waiting);
    }

    /// Nothing waits at `now`: what there was is in the journal, by this bus or by another one.
    pub(super) fn nothing_waits(&self, now: Timestamp) {
        let mut state = self.state();
        state.status.lag = Duration::ZERO;
        let (away_for, waiting) = (state.is_back(now), state.status.waiting);
        let metrics = Metrics::beside(state);
        metrics.tell(|metrics| metrics.lag(Duration::ZERO));
        metrics.tell_back(away_for, waiting);
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
            let metrics = Metrics::beside(state);
            panics::reported(|| {
                tracing::warn!(
                    %error,
                    waiting,
                    "journal unavailable; records stay in the store and are retried"
                );
            });
            metrics.tell(|metrics| metrics.away(true));
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use metrics::{Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder};
    use metrics::{SharedString, Unit};
    use tracing::span;

    use super::*;
    use crate::event::{BucketId, BucketKey};

    /// Looks at the status whenever it is told something, and panics then.
    struct Looks(Arc<SharedStatus>);

    impl Looks {
        fn look(&self) {
            assert!(self.0.status().recorded > 1_000, "it has recorded few");
        }
    }

    impl GaugeFn for Looks {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, _: f64) {
            self.look();
        }
    }

    struct Recording(Arc<Looks>);

    impl Recorder for Recording {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            self.0.look();
            Counter::noop()
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(Arc::clone(&self.0))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    impl tracing::Subscriber for Looks {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {
            self.look();
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    fn goes_on(status: &SharedStatus) {
        let at = Timestamp::from_millis;
        let outbox = Outbox::Store;
        status.wait_in(&outbox, 3);
        status.lags(Duration::from_secs(1));
        status.failed(&Error::closed("away"), at(5));
        status.recorded(3, at(9));
        status.failed(&Error::closed("away again"), at(10));
        status.nothing_waits(at(11));
        status.wait_in(&outbox, 0);
        status.ended();
    }

    #[test]
    fn what_waits_is_the_sum_over_very_many_outboxes() {
        const MANY: u16 = 30_000;
        let status = SharedStatus::new();
        let queue: crate::event::QueueName = "orders".parse().unwrap();
        let outboxes: Vec<_> = (0..MANY)
            .map(|bucket| Outbox::Bucket(BucketKey::new(queue.clone(), BucketId(bucket))))
            .collect();
        for (outbox, waiting) in outboxes.iter().zip(1..) {
            status.wait_in(outbox, waiting);
        }
        let many = u64::from(MANY);
        assert_eq!(status.status().waiting, many * (many + 1) / 2);
        for outbox in &outboxes {
            status.wait_in(outbox, 2);
        }
        assert_eq!(status.status().waiting, 2 * many);
        for outbox in &outboxes[1..] {
            status.wait_in(outbox, 0);
        }
        assert_eq!(status.status().waiting, 2);
    }

    #[test]
    fn who_is_told_may_look_at_the_status_and_panic() {
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            let status = Arc::new(SharedStatus::new());
            let looks = || Arc::new(Looks(Arc::clone(&status)));
            let _log = tracing::subscriber::set_default(looks());
            let recorder = Recording(looks());
            metrics::with_local_recorder(&recorder, || goes_on(&status));
            done.send(status.status()).unwrap();
        });
        let status = ended.recv_timeout(Duration::from_secs(60));
        let status = status.expect("what is told neither waits for the status nor breaks it");
        assert_eq!((status.recorded, status.waiting), (3, 0));
        assert_eq!((status.lag, status.away_since), (Duration::ZERO, None));
        assert_eq!(status.last_error.as_deref(), Some("away again"));
    }
}
