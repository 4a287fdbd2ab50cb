//! The reply of a record query, and how much of the records is kept.

use std::time::Duration;

use crate::record::{Cursor, Numbered};

/// What a journal found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundRecords {
    /// The records, in the order that was asked for.
    pub records: Vec<Numbered>,
    /// Where to go on, when there may be more.
    pub next: Option<Cursor>,
    /// How many rows were passed over that cannot be read: damaged, or written by a newer duly.
    pub skipped: u64,
}

/// How long records are kept, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Those that finished longer ago are removed. `None`: however old.
    pub age: Option<Duration>,
    /// The oldest beyond so many are removed. `None`: however many.
    pub count: Option<u64>,
    /// Counts by minute that are older are removed. `None`: however old.
    pub minutes: Option<Duration>,
    /// Whether all that is beyond an age may go at once, however much it is.
    pub at_once: bool,
}

/// 30 days, since most questions are about the last one; 10,000,000 records, some gigabytes; counts
/// for 400 days, so that a year can be compared with the one before.
impl Default for Keep {
    fn default() -> Self {
        const DAY: Duration = Duration::from_hours(24);
        Self {
            age: Some(30 * DAY),
            count: Some(10_000_000),
            minutes: Some(400 * DAY),
            at_once: false,
        }
    }
}

/// What one step of pruning did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many records were removed.
    pub records: u64,
    /// Whether there is more to remove.
    pub more: bool,
    /// Whether some of it has to wait, since an hour's share has been removed.
    pub is_held_back: bool,
}
