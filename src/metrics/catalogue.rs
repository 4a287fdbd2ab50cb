//! The catalogue of metrics: the name, kind, unit, labels and description of each.

use ::metrics::Unit;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A counter, which grows while the process runs.
    Counter,
    /// A gauge.
    Gauge,
    /// A histogram with the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Its description, in a sentence.
    pub help: &'static str,
}

/// From half a millisecond, the cost of a wake-up, to a day.
pub const LATENESS_BOUNDS: &[f64] = &[
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0, 3_600.0, 86_400.0,
];

/// From a quarter of a millisecond to ten minutes.
pub const DURATION_BOUNDS: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0, 600.0,
];

/// From one event to the most of one operation.
pub const BATCH_BOUNDS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0,
];

/// Accepted events.
pub(crate) const PUSHED: &str = "duly_pushed_total";
/// Pushes of an existing event or unique key.
pub(crate) const DUPLICATES: &str = "duly_duplicates_total";
/// Rejected pushes.
pub(crate) const REJECTED: &str = "duly_rejected_total";
/// Due events that this process moved to a ready list.
pub(crate) const MOVED: &str = "duly_moved_total";
/// Attempts whose handler was started.
pub(crate) const DELIVERED: &str = "duly_delivered_total";
/// Settled attempts and events.
pub(crate) const SETTLED: &str = "duly_settled_total";
/// Events taken back from dead nodes.
pub(crate) const REAPED: &str = "duly_reaped_total";
/// Outcomes that arrived after their lease was lost.
pub(crate) const LEASES_LOST: &str = "duly_leases_lost_total";
/// How late an attempt was, by stage.
pub(crate) const LATENESS: &str = "duly_lateness_seconds";
/// How long handlers ran.
pub(crate) const HANDLER: &str = "duly_handler_seconds";
/// The duration of store calls.
pub(crate) const STORE_CALL: &str = "duly_store_call_seconds";
/// Failed store calls.
pub(crate) const STORE_ERRORS: &str = "duly_store_errors_total";
/// Attempts that were settled in one call.
pub(crate) const SETTLE_BATCH: &str = "duly_settle_batch_size";
/// Events by state.
pub(crate) const DEPTH: &str = "duly_queue_depth";
/// The age of the oldest ready event.
pub(crate) const OLDEST_READY: &str = "duly_queue_oldest_ready_seconds";
/// Scheduled events that fall due soon.
pub(crate) const DUE: &str = "duly_queue_due";
/// Occupied slots of the ring.
pub(crate) const RING_USED: &str = "duly_ring_used";
/// Workers whose handler runs.
pub(crate) const WORKERS_BUSY: &str = "duly_workers_busy";
/// Workers held by blocking handlers that run on after their timeout.
pub(crate) const WORKERS_STUCK: &str = "duly_workers_stuck";
/// The most workers that may run.
pub(crate) const WORKERS: &str = "duly_workers";
/// Whether starts wait for the queue's rate limit.
pub(crate) const RATE_WAITING: &str = "duly_rate_waiting";
/// How far the store's clock is ahead of the node's.
pub(crate) const CLOCK_SKEW: &str = "duly_clock_skew_seconds";
/// How long the mover sleeps.
pub(crate) const MOVER_SLEEP: &str = "duly_mover_sleep_seconds";
/// Live members.
pub(crate) const LIVE_NODES: &str = "duly_live_nodes";
/// Records that wait in outboxes, as far as this process has seen.
pub(crate) const OUTBOX_WAITING: &str = "duly_outbox_waiting";
/// Records that this process has loaded into the journal.
pub(crate) const JOURNAL_RECORDED: &str = "duly_journal_recorded_total";
/// Records that were dropped before they were in the journal.
pub(crate) const JOURNAL_DROPPED: &str = "duly_journal_dropped_total";
/// The age of the oldest record of the last read.
pub(crate) const JOURNAL_LAG: &str = "duly_journal_lag_seconds";
/// Occurrences of schedules.
pub(crate) const OCCURRENCES: &str = "duly_schedule_occurrences_total";
/// Whether the journal is unavailable: 1 or 0.
pub(crate) const JOURNAL_AWAY: &str = "duly_journal_away";

const fn metric(
    name: &'static str,
    kind: Kind,
    unit: Unit,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        unit,
        labels,
        help,
    }
}

const COUNTER: Kind = Kind::Counter;
const GAUGE: Kind = Kind::Gauge;

/// All metrics.
pub const CATALOGUE: &[Metric] = &[
    metric(
        PUSHED,
        COUNTER,
        Unit::Count,
        &["queue"],
        "Events that the store accepted from this process.",
    ),
    metric(
        DUPLICATES,
        COUNTER,
        Unit::Count,
        &["queue"],
        "Pushes of an event or a unique key that already existed.",
    ),
    metric(
        REJECTED,
        COUNTER,
        Unit::Count,
        &["queue", "reason"],
        "Rejected events, by kind of the error; a batch that is rejected before \
         it is sent counts as one.",
    ),
    metric(
        MOVED,
        COUNTER,
        Unit::Count,
        &["queue"],
        "Events that this process moved to a ready list when they were due.",
    ),
    metric(
        DELIVERED,
        COUNTER,
        Unit::Count,
        &["queue"],
        "Attempts that were started: of handlers, and those that consumers have pulled.",
    ),
    metric(
        SETTLED,
        COUNTER,
        Unit::Count,
        &["queue", "outcome"],
        "Settled attempts, by outcome.",
    ),
    metric(
        REAPED,
        COUNTER,
        Unit::Count,
        &["queue"],
        "Events that this process took back from nodes and pulling consumers that fell silent.",
    ),
    metric(
        LEASES_LOST,
        COUNTER,
        Unit::Count,
        &["queue"],
        "Attempts of this process whose outcome arrived after their lease was lost.",
    ),
    metric(
        LATENESS,
        Kind::Histogram(LATENESS_BOUNDS),
        Unit::Seconds,
        &["queue", "stage"],
        "How late attempts were started: `move`, `fetch` and `start` add up to `total`.",
    ),
    metric(
        HANDLER,
        Kind::Histogram(DURATION_BOUNDS),
        Unit::Seconds,
        &["queue"],
        "How long handlers ran.",
    ),
    metric(
        OCCURRENCES,
        COUNTER,
        Unit::Count,
        &["outcome"],
        "Occurrences of schedules, by what became of them: `pushed`, or passed over as `missed` or \
         `overlapped`.",
    ),
    metric(
        STORE_CALL,
        Kind::Histogram(DURATION_BOUNDS),
        Unit::Seconds,
        &["op"],
        "Duration of store calls, by operation.",
    ),
    metric(
        STORE_ERRORS,
        COUNTER,
        Unit::Count,
        &["op", "kind"],
        "Failed store calls, by operation and kind of the error; each damaged event that a store sets \
         aside counts as one, and each failure to end what is over.",
    ),
    metric(
        SETTLE_BATCH,
        Kind::Histogram(BATCH_BOUNDS),
        Unit::Count,
        &[],
        "Attempts that were settled in one call.",
    ),
    metric(
        DEPTH,
        GAUGE,
        Unit::Count,
        &["queue", "state"],
        "Events by state, of the whole queue: every node reports it, aggregate by max.",
    ),
    metric(
        OLDEST_READY,
        GAUGE,
        Unit::Seconds,
        &["queue"],
        "How long the oldest ready event of the queue has waited, from its due time where no process moves it.",
    ),
    metric(
        DUE,
        GAUGE,
        Unit::Count,
        &["queue", "within"],
        "Scheduled events that fall due within 10s, 1m, 10m and 1h, of the whole queue: every node \
         reports it, aggregate by max.",
    ),
    metric(
        RING_USED,
        GAUGE,
        Unit::Count,
        &["queue"],
        "Occupied slots of the ring.",
    ),
    metric(
        WORKERS_BUSY,
        GAUGE,
        Unit::Count,
        &["queue"],
        "Workers of this process whose handler runs.",
    ),
    metric(
        WORKERS_STUCK,
        GAUGE,
        Unit::Count,
        &["queue"],
        "Workers of this process held by blocking handlers that run on after their timeout.",
    ),
    metric(
        WORKERS,
        GAUGE,
        Unit::Count,
        &["queue"],
        "Handlers of this process that may run at once.",
    ),
    metric(
        RATE_WAITING,
        GAUGE,
        Unit::Count,
        &["queue"],
        "1 while due events wait for the queue's rate limit, else 0.",
    ),
    metric(
        CLOCK_SKEW,
        GAUGE,
        Unit::Seconds,
        &[],
        "How far the store's clock is ahead of this machine's.",
    ),
    metric(
        MOVER_SLEEP,
        GAUGE,
        Unit::Seconds,
        &[],
        "Planned duration of the mover's last sleep.",
    ),
    metric(
        LIVE_NODES,
        GAUGE,
        Unit::Count,
        &[],
        "Live members, as this node sees them.",
    ),
    metric(
        OUTBOX_WAITING,
        GAUGE,
        Unit::Count,
        &[],
        "Records that wait in outboxes for the journal, as far as this process has seen.",
    ),
    metric(
        JOURNAL_RECORDED,
        COUNTER,
        Unit::Count,
        &[],
        "Records that this process has loaded into the journal.",
    ),
    metric(
        JOURNAL_DROPPED,
        COUNTER,
        Unit::Count,
        &[],
        "Records that a full outbox dropped before they were in the journal.",
    ),
    metric(
        JOURNAL_LAG,
        GAUGE,
        Unit::Seconds,
        &[],
        "Age of the oldest record of the last read; 0 when none waits.",
    ),
    metric(
        JOURNAL_AWAY,
        GAUGE,
        Unit::Count,
        &[],
        "1 while the journal is unavailable, else 0.",
    ),
];
