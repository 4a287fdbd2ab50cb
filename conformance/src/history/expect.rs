//! What must be so in one world beside what must always be so.

use duly::store::DedupWindow;

/// What must be so in one world beside what must always be so.
///
/// By default nothing is: any fault may have happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expect {
    /// No fault: attempts and starts are the same number.
    pub exact: bool,
    /// No lease may be lost.
    pub leases_stand: bool,
    /// A handler starts at most so many microseconds after the due time.
    pub late_us_max: Option<u64>,
    /// Only what was known to be due after this, by the store's clock, can be late.
    pub late_counts_from_us: u64,
    /// So many microseconds after the last fault nothing of it is left.
    pub calm_after_us: u64,
    /// What a dead node held starts again within so many microseconds.
    pub recovery_us_max: Option<u64>,
    /// By so many microseconds a clock that was set back may go unnoticed.
    pub early_us_max: u64,
    /// How many microseconds ahead of its due time an event may be leased.
    pub ahead_us: u64,
    /// Some queue is clogged on purpose, so that lateness in any other breaks promise 7.
    pub is_clogged: bool,
    /// Which finished ids a bucket remembers, where that is exactly known: only ids that are older
    /// than one that it has forgotten are too old.
    pub remembers: Option<DedupWindow>,
}
