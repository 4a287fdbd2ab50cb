//! Expectations of one scenario, in addition to the promises.

use duly::store::DedupWindow;

/// Expectations of one scenario, in addition to the promises.
///
/// There are none by default: any fault may have happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expect {
    /// No fault: the numbers of attempts and starts are equal.
    pub exact: bool,
    /// No lease may be lost.
    pub leases_stand: bool,
    /// The limit of lateness of a start, in microseconds.
    pub late_us_max: Option<u64>,
    /// Lateness counts only for due times that became known after this time of the store.
    pub late_counts_from_us: u64,
    /// How long after the last fault its effects end, in microseconds.
    pub calm_after_us: u64,
    /// The limit until an event of a dead node starts again, in microseconds.
    pub recovery_us_max: Option<u64>,
    /// How far back the clock may be set unnoticed, in microseconds.
    pub early_us_max: u64,
    /// How far ahead of its due time an event may be leased, in microseconds.
    pub ahead_us: u64,
    /// Whether a queue is clogged on purpose, so that lateness in any other breaks promise 7.
    pub is_clogged: bool,
    /// The dedup window of a bucket, if it is known exactly: only ids that are older than a
    /// forgotten one are too old.
    pub remembers: Option<DedupWindow>,
}
