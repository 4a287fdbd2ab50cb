//! Metrics of a queue, with handles that are looked up once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use ::metrics::SharedString;

use super::catalogue::{
    DELIVERED, DUPLICATES, HANDLER, LATENESS, LEASES_LOST, MOVED, MOVER_SLEEP, PUSHED,
    RATE_WAITING, REAPED, REJECTED, RING_USED, SETTLE_BATCH, SETTLED, WORKERS, WORKERS_BUSY,
    WORKERS_STUCK,
};
use super::gauge_share::{Combine, GaugeShare};
use super::guarded::{Counter, Histogram, counter, histogram};
use super::queues::QueueLabels;
use super::stages::Stages;
use crate::error::ErrorKind;
use crate::event::QueueName;
use crate::panics;

/// The counters of pushes to one queue.
pub(crate) struct PushCounters {
    /// `None` where nothing is counted.
    label: Option<SharedString>,
    pushed: Counter,
    duplicates: Counter,
}

impl PushCounters {
    fn new(label: SharedString) -> Self {
        let pushes = Self {
            pushed: counter!(PUSHED, "queue" => label.clone()),
            duplicates: counter!(DUPLICATES, "queue" => label.clone()),
            label: Some(label),
        };
        pushes.rejected(ErrorKind::Full, 0); // exported from the start, so that it can be seen to grow
        pushes
    }

    /// Returns counters that count nothing, for a queue that is none of a user's.
    pub(crate) fn uncounted() -> Self {
        Self {
            pushed: Counter::noop(),
            duplicates: Counter::noop(),
            label: None,
        }
    }

    /// Counts accepted events and duplicates, whatever panics of the recorder.
    pub(crate) fn accepted(&self, new: u64, duplicates: u64) {
        panics::reported(|| {
            self.pushed.increment(new);
            if duplicates > 0 {
                self.duplicates.increment(duplicates);
            }
        });
    }

    /// Counts rejected events.
    pub(crate) fn rejected(&self, why: ErrorKind, many: u64) {
        if let Some(queue) = self.label.clone() {
            panics::reported(|| {
                counter!(REJECTED, "queue" => queue, "reason" => why.name()).increment(many);
            });
        }
    }
}

/// Metrics by queue; queues that share a label share metrics.
pub(crate) struct QueueMeters<M> {
    labels: Arc<QueueLabels>,
    new: fn(SharedString) -> M,
    made: RwLock<HashMap<SharedString, Arc<M>>>,
}

/// The counters of pushes by queue.
pub(crate) type PushMeters = QueueMeters<PushCounters>;

/// The metrics of pulled attempts by queue.
pub(crate) type PullMeters = QueueMeters<PullMetrics>;

impl PushMeters {
    pub(crate) fn of_pushes(labels: Arc<QueueLabels>) -> Self {
        Self::new(labels, PushCounters::new)
    }

    /// Returns the counters of a queue; beside a recorder that panics they count nothing.
    pub(crate) fn of_queue(&self, queue: &QueueName) -> Arc<PushCounters> {
        panics::caught(|| self.of(queue)).unwrap_or_else(|_| Arc::new(PushCounters::uncounted()))
    }
}

impl PullMeters {
    pub(crate) fn of_pulls(labels: Arc<QueueLabels>) -> Self {
        Self::new(labels, |label| PullMetrics {
            starts: StartMetrics::new(&label),
            settles: MoverCounters::new(&label),
        })
    }

    /// Counts what has happened already, whatever panics of the recorder.
    pub(crate) fn report(&self, queue: &QueueName, count: impl FnOnce(&PullMetrics)) {
        panics::reported(|| count(&self.of(queue)));
    }
}

impl<M> QueueMeters<M> {
    fn new(labels: Arc<QueueLabels>, new: fn(SharedString) -> M) -> Self {
        Self {
            labels,
            new,
            made: RwLock::default(),
        }
    }

    /// Returns the metrics of a queue.
    pub(crate) fn of(&self, queue: &QueueName) -> Arc<M> {
        let label = self.labels.label(queue);
        {
            let made = self.made.read();
            if let Some(metrics) = made.get(&label) {
                return Arc::clone(metrics);
            }
        }
        let mut made = self.made.write();
        let new = || Arc::new((self.new)(label.clone()));
        Arc::clone(made.entry(label.clone()).or_insert_with(new))
    }
}

/// How an attempt or an event was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettleKind {
    Acked,
    Retried,
    Snoozed,
    Buried,
    Discarded,
    Expired,
    Released,
    Interrupted,
}

impl SettleKind {
    const NAMES: [&'static str; 8] = [
        "acked",
        "retried",
        "snoozed",
        "buried",
        "discarded",
        "expired",
        "released",
        "interrupted",
    ];
}

/// The counters of the mover's store calls for one queue.
pub(crate) struct MoverCounters {
    moved: Counter,
    reaped: Counter,
    lost: Counter,
    settled: [Counter; SettleKind::NAMES.len()],
    /// Shared by all queues.
    batch: Histogram,
}

impl MoverCounters {
    pub(crate) fn new(label: &SharedString) -> Self {
        Self {
            moved: counter!(MOVED, "queue" => label.clone()),
            reaped: counter!(REAPED, "queue" => label.clone()),
            lost: counter!(LEASES_LOST, "queue" => label.clone()),
            settled: SettleKind::NAMES
                .map(|name| counter!(SETTLED, "queue" => label.clone(), "outcome" => name)),
            batch: histogram!(SETTLE_BATCH),
        }
    }

    pub(crate) fn moved(&self, many: usize) {
        self.moved.increment(many as u64);
    }

    pub(crate) fn reaped(&self, many: usize) {
        self.reaped.increment(many as u64);
    }

    /// Counts events that a fetch has ended.
    pub(crate) fn set_aside(&self, expired: usize, late: usize) {
        let kinds = [(SettleKind::Expired, expired), (SettleKind::Buried, late)];
        for (kind, many) in kinds.into_iter().filter(|(_, many)| *many > 0) {
            self.settled[kind as usize].increment(many as u64);
        }
    }

    /// Counts a settled batch: for each entry its outcome, and whether the store accepted it.
    pub(crate) fn settled(&self, batch: impl ExactSizeIterator<Item = (SettleKind, bool)>) {
        self.batch.record(batch.len() as f64);
        let mut sums = [0; SettleKind::NAMES.len()];
        let mut lost = 0;
        for (settled, accepted) in batch {
            if accepted {
                sums[settled as usize] += 1;
            } else {
                lost += 1;
            }
        }
        let sums = self.settled.iter().zip(sums);
        for (counter, sum) in sums.chain([(&self.lost, lost)]) {
            if sum > 0 {
                counter.increment(sum);
            }
        }
    }
}

/// The metrics of attempts of one queue that consumers have pulled.
pub(crate) struct PullMetrics {
    pub(crate) starts: StartMetrics,
    pub(crate) settles: MoverCounters,
}

/// The metrics of starts of one queue's attempts.
pub(crate) struct StartMetrics {
    delivered: Counter,
    moving: Histogram,
    fetching: Histogram,
    starting: Histogram,
    total: Histogram,
}

impl StartMetrics {
    fn new(label: &SharedString) -> Self {
        let stage = |stage: &'static str| {
            let queue = label.clone();
            histogram!(LATENESS, "queue" => queue, "stage" => stage)
        };
        Self {
            delivered: counter!(DELIVERED, "queue" => label.clone()),
            moving: stage("move"),
            fetching: stage("fetch"),
            starting: stage("start"),
            total: stage("total"),
        }
    }

    /// Counts a start.
    pub(crate) fn started(&self, stages: &Stages) {
        self.delivered.increment(1);
        self.moving.record(seconds(stages.move_us));
        self.fetching.record(seconds(stages.fetch_us));
        self.starting.record(seconds(stages.start_us));
        self.total.record(seconds(stages.total_us()));
    }
}

/// The metrics of one queue's handler.
pub(crate) struct AttemptMetrics {
    starts: StartMetrics,
    handler: Histogram,
}

impl AttemptMetrics {
    pub(crate) fn new(label: &SharedString) -> Self {
        Self {
            starts: StartMetrics::new(label),
            handler: histogram!(HANDLER, "queue" => label.clone()),
        }
    }

    /// Counts a handler's start.
    pub(crate) fn started(&self, stages: &Stages) {
        self.starts.started(stages);
    }

    /// Records how long a handler ran.
    pub(crate) fn ended(&self, ran: Duration) {
        self.handler.record(ran.as_secs_f64());
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// The load of the queues of one label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueActivity {
    pub(crate) ring_used: usize,
    pub(crate) busy: usize,
    pub(crate) stuck: usize,
    pub(crate) workers: usize,
    pub(crate) waits_for_rate: bool,
}

impl QueueActivity {
    /// Returns the sum of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            ring_used: self.ring_used + other.ring_used,
            busy: self.busy + other.busy,
            stuck: self.stuck + other.stuck,
            workers: self.workers + other.workers,
            waits_for_rate: self.waits_for_rate || other.waits_for_rate,
        }
    }

    /// Returns whether it stays as it is until something happens.
    pub(crate) fn is_at_rest(self) -> bool {
        self.ring_used == 0 && self.busy == 0 && !self.waits_for_rate
    }
}

/// The gauges of one label.
pub(crate) struct Gauges {
    ring_used: GaugeShare,
    busy: GaugeShare,
    stuck: GaugeShare,
    workers: GaugeShare,
    rate_waiting: GaugeShare,
}

impl Gauges {
    pub(crate) fn new(label: &SharedString) -> Self {
        Self {
            ring_used: GaugeShare::new(RING_USED, Some(label), Combine::Sum),
            busy: GaugeShare::new(WORKERS_BUSY, Some(label), Combine::Sum),
            stuck: GaugeShare::new(WORKERS_STUCK, Some(label), Combine::Sum),
            workers: GaugeShare::new(WORKERS, Some(label), Combine::Sum),
            rate_waiting: GaugeShare::new(RATE_WAITING, Some(label), Combine::Max),
        }
    }

    pub(crate) fn set(&self, doing: QueueActivity) {
        self.ring_used.set(doing.ring_used as f64);
        self.busy.set(doing.busy as f64);
        self.stuck.set(doing.stuck as f64);
        self.workers.set(doing.workers as f64);
        let waiting = u8::from(doing.waits_for_rate);
        self.rate_waiting.set(f64::from(waiting));
    }
}

/// The gauge of the mover's sleep.
pub(crate) struct MoverSleepGauge(GaugeShare);

impl MoverSleepGauge {
    /// The value of a mover that has nothing to wake for.
    const MAX: Duration = Duration::from_secs(86_400);

    pub(crate) fn new() -> Self {
        Self(GaugeShare::new(MOVER_SLEEP, None, Combine::Max))
    }

    pub(crate) fn set(&self, span: Duration) {
        self.0.set(span.min(Self::MAX).as_secs_f64());
    }
}
