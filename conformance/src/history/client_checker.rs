//! A checker of client histories: what clients, records and the store report of each event must
//! agree.

use std::collections::BTreeMap;

use super::claims::UniqueKeyClaims;
use super::entry::Entry;
use super::promise::{BrokenPromise, Promise};
use super::report::Report;
use super::timeline::EventTimeline;
use duly::EventId;

/// Follows every event of a history that holds what clients observed, and at its end the store's
/// records and the events' last states.
///
/// It keeps some hundred bytes for each event.
#[derive(Debug, Default)]
pub struct ClientChecker {
    stories: BTreeMap<EventId, EventTimeline>,
    claims: UniqueKeyClaims,
    early_us_max: u64,
    allow_lost_tail: bool,
}

impl ClientChecker {
    /// For a store that keeps what it confirmed, and a clock that is never set back.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// For a store that may have lost its last moments: mismatches are counted, and are no broken
    /// promise. An early start still is, and so is any effect of a refused push.
    #[must_use]
    pub fn allow_lost_tail(mut self) -> Self {
        self.allow_lost_tail = true;
        self
    }

    /// For a store whose clock may have been set back by this many microseconds unnoticed.
    #[must_use]
    pub fn early_us_max(mut self, early_us: u64) -> Self {
        self.early_us_max = early_us;
        self
    }

    /// Reads one entry.
    pub fn read(&mut self, entry: &Entry) {
        if let Some(id) = entry.id {
            let story = self.stories.entry(id).or_default();
            story.read(entry, self.early_us_max);
            self.claims.read(id, entry);
        }
    }

    /// Returns the events that may have been accepted without confirmation, with the payload and
    /// the number of attempts. Pushing them again, as their clients would, is safe.
    pub fn open(&self) -> impl Iterator<Item = (EventId, u64, u16)> {
        let open = self.stories.iter().filter(|(_, story)| story.is_open());
        open.map(|(id, story)| (*id, story.payload, story.attempts))
    }

    /// Returns all events of the history.
    pub fn ids(&self) -> impl Iterator<Item = EventId> {
        self.stories.keys().copied()
    }

    /// Computes the report.
    #[must_use]
    pub fn close(self) -> Report {
        let mut report = Report::default();
        // If the clock is set back, the order of two events is unknown.
        if !self.allow_lost_tail && self.early_us_max == 0 {
            for broken in self.claims.broken() {
                report.unaccounted += 1;
                report.add_broken(broken);
            }
        }
        for (id, story) in self.stories {
            story.count(&mut report);
            if story.early > 0 {
                let text = "a handler started early";
                report.add_broken(BrokenPromise::new(Promise::NeverEarly, Some(id), text));
            }
            let Some((promise, text)) = story.wrong() else {
                continue;
            };
            let is_lost = story.is_lost();
            report.lost += u64::from(is_lost);
            report.unaccounted += u64::from(!is_lost);
            if !self.allow_lost_tail || promise == Promise::Doubt {
                report.add_broken(BrokenPromise::new(promise, Some(id), text));
            }
        }
        report
    }
}
