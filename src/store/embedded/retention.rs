//! Retention: the oldest records go in bounded steps, within the transactions that add new ones.
//!
//! An age counts back from the newest record, so a store that adds none has nothing to remove, and
//! no timer is needed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::record::Keep;
use crate::record::retention::warn_held_back;
use crate::sqlite::records::{self, QueueNumbers};
use crate::time::{Clock, Mono, Timestamp};

/// How often ages are looked at while records come.
const EVERY: Duration = Duration::from_millis(100);
/// How many records a step removes beside twice as many as were added: a lowered bound is reached in
/// time, and no commit pays for it alone.
const STEP: i64 = 200;
/// How many it removes when nobody waits for the commit.
const STEP_IDLE: i64 = records::RECORDS_MAX;

/// What is kept, as whoever uses the store sets it.
pub(super) type SharedKeep = Arc<Mutex<Keep>>;

/// When a step is due.
#[derive(Debug)]
pub(super) struct Retention {
    keep: SharedKeep,
    clock: Arc<dyn Clock>,
    looked: Option<Mono>,
    more: bool,
    is_held_back: bool,
}

impl Retention {
    /// A retention that has not looked yet.
    pub(super) fn new(keep: SharedKeep, clock: Arc<dyn Clock>) -> Self {
        Self {
            keep,
            clock,
            looked: None,
            more: false,
            is_held_back: false,
        }
    }

    /// Whether the last step left something to remove.
    pub(super) fn has_more(&self) -> bool {
        self.more
    }

    /// Removes some of the `total` records, of which `added` are new, where that is due; `None`:
    /// nobody waits for the commit. The transaction is open.
    pub(super) fn step(
        &mut self,
        connection: &Connection,
        numbers: &mut QueueNumbers,
        total: &mut i64,
        added: Option<i64>,
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        let keep = *self.keep.lock();
        let mono = self.clock.mono();
        let is_too_much = keep
            .count
            .is_some_and(|count| u64::try_from(*total).is_ok_and(|total| total > count));
        let looks = added > Some(0) && self.looked.is_none_or(|at| mono.since(at) >= EVERY);
        if !(is_too_much || looks || self.more) {
            return Ok(());
        }
        self.looked = Some(mono);
        let most = added.map_or(STEP_IDLE, |added| STEP + 2 * added);
        // The store has one clock, that of the machine.
        let pruned = records::prune(connection, numbers, keep, now, now, *total, most)?;
        *total -= pruned.records.cast_signed();
        self.more = pruned.more;
        if pruned.is_held_back && !self.is_held_back {
            warn_held_back(keep, now);
        }
        self.is_held_back = pruned.is_held_back;
        Ok(())
    }
}
