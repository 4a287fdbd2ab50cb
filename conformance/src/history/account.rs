//! The account: what clients, records and the store say of each event must fit together.

use std::collections::BTreeMap;

use super::claims::Claims;
use super::entry::Entry;
use super::promise::{Broken, Promise};
use super::report::Report;
use super::story::Story;
use duly::EventId;

/// Follows every event of a history that holds what clients saw, and at its end the store's
/// records and the events' last states.
///
/// It holds a story for each event, some hundred bytes.
#[derive(Debug, Default)]
pub struct Account {
    stories: BTreeMap<EventId, Story>,
    claims: Claims,
    early_us_max: u64,
    may_forget: bool,
}

impl Account {
    /// For a store that keeps what it answered, and a clock that is never set back.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// For a store that may have forgotten its last moments: what does not fit is counted, and is
    /// no broken promise. That something starts early, or happens after it was refused, still is.
    #[must_use]
    pub fn may_forget(mut self) -> Self {
        self.may_forget = true;
        self
    }

    /// For a store whose clock may have been set back by so many microseconds unnoticed.
    #[must_use]
    pub fn early_us_max(mut self, early_us: u64) -> Self {
        self.early_us_max = early_us;
        self
    }

    /// Reads one line.
    pub fn read(&mut self, entry: &Entry) {
        if let Some(id) = entry.id {
            let story = self.stories.entry(id).or_default();
            story.read(entry, self.early_us_max);
            self.claims.read(id, entry);
        }
    }

    /// The events of which nobody knows whether they were accepted, with what was pushed and how
    /// often it may be tried. Pushing them again, as their pushers would, is safe.
    pub fn open(&self) -> impl Iterator<Item = (EventId, u64, u16)> {
        let open = self.stories.iter().filter(|(_, story)| story.is_open());
        open.map(|(id, story)| (*id, story.payload, story.attempts))
    }

    /// All events of which the history speaks.
    pub fn ids(&self) -> impl Iterator<Item = EventId> {
        self.stories.keys().copied()
    }

    /// Adds everything up.
    #[must_use]
    pub fn close(self) -> Report {
        let mut report = Report::default();
        // Where the clock is set back, nobody knows what of two events came first.
        if !self.may_forget && self.early_us_max == 0 {
            for broken in self.claims.broken() {
                report.unaccounted += 1;
                report.add_broken(broken);
            }
        }
        for (id, story) in self.stories {
            story.count(&mut report);
            if story.early > 0 {
                let text = "a handler started early";
                report.add_broken(Broken::new(Promise::NeverEarly, Some(id), text));
            }
            let Some((promise, text)) = story.wrong() else {
                continue;
            };
            let is_lost = story.is_lost();
            report.lost += u64::from(is_lost);
            report.unaccounted += u64::from(!is_lost);
            if !self.may_forget || promise == Promise::Doubt {
                report.add_broken(Broken::new(promise, Some(id), text));
            }
        }
        report
    }
}
