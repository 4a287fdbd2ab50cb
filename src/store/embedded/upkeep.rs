//! The timetable of the maintenance of the file, and the work that is left.

use std::time::Duration;

use crate::time::Mono;

/// How often it is looked whether the file is still where it was.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often it is looked whether a full disk has room.
pub(super) const FULL_EVERY: Duration = Duration::from_millis(250);
/// How long nothing happens before the file is tidied.
pub(super) const IDLE: Duration = Duration::from_millis(100);
/// The same while pages of a full disk can be given back.
pub(super) const GIVING: Duration = Duration::from_millis(1);
/// How many free pages are given back at a time: 1 MiB.
pub(super) const VACUUM_PAGES: u32 = 256;

/// What is to be looked after.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// There may be something to tidy.
    pub(super) is_untidy: bool,
    /// Space was given back in the log, not yet in the file.
    pub(super) vacuumed: bool,
    /// How many pages of a full disk are given back next; 0: none.
    pub(super) gives: u32,
    pub(super) looked: Mono,
    pub(super) limit: Option<u64>,
}

impl Upkeep {
    pub(super) fn from(now: Mono) -> Self {
        Self {
            is_untidy: true,
            vacuumed: false,
            gives: VACUUM_PAGES,
            looked: now,
            limit: None,
        }
    }

    /// How long may pass before there is something to do.
    pub(super) fn rest(&self, full: bool) -> Duration {
        match (full, self.is_untidy) {
            (true, _) if self.gives > 0 => GIVING,
            (true, _) => FULL_EVERY,
            (false, true) => IDLE,
            (false, false) => LOOK_EVERY,
        }
    }
}
