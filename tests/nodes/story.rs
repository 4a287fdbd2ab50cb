//! What is known of one event, and whether it fits together.

use std::collections::BTreeMap;

use duly::prelude::*;
use duly::{EventState, Record};

use super::child::ATTEMPTS;
use super::log::Line;

/// What is known of one event.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) payload: u64,
    pub(super) due_ms: Option<u64>,
    pub(super) refused: bool,
    pub(super) unknown: usize,
    pub(super) cancelled: bool,
    /// It started after it was said to be cancelled.
    is_undead: bool,
    /// Attempt, time, process: in the order in which they started.
    pub(super) starts: Vec<(u64, u64, u64)>,
    /// By how many microseconds a start came too early by what its push was answered.
    early_us: Option<u64>,
    pub(super) records: Vec<Record>,
}

/// Reads the log into a story for each event.
///
/// Nothing starts that was never pushed: that is checked here.
pub(super) fn tell(lines: &[Line]) -> BTreeMap<EventId, Story> {
    let mut stories: BTreeMap<EventId, Story> = BTreeMap::new();
    for line in lines {
        match *line {
            Line::Pushing { id, payload } => stories.entry(id).or_default().payload = payload,
            Line::Pushed { id, due_ms } => stories.entry(id).or_default().due_ms = Some(due_ms),
            Line::Refused { id } => stories.entry(id).or_default().refused = true,
            Line::Unknown { id } => stories.entry(id).or_default().unknown += 1,
            Line::Cancelled { id } => stories.entry(id).or_default().cancelled = true,
            Line::Started {
                id,
                attempt,
                at_us,
                process,
            } => {
                let story = stories.get_mut(&id);
                let story = story.unwrap_or_else(|| panic!("{id} was never pushed"));
                story.is_undead |= story.cancelled;
                story.starts.push((attempt, at_us, process));
                // A repeated push is answered with the due time of now, so only what starts after
                // an answer is held against it; the rest is held against the records.
                let due_us = story.due_ms.unwrap_or(0) * 1_000;
                story.early_us = story.early_us.max(due_us.checked_sub(at_us + 1));
            }
        }
    }
    stories
}

impl Story {
    /// Whether the push may have happened, and nobody was told.
    pub(super) fn is_open(&self) -> bool {
        self.due_ms.is_none() && !(self.refused && self.unknown == 0)
    }

    /// Whether the push was answered with *nothing happened*, and never with anything else.
    pub(super) fn is_refused(&self) -> bool {
        self.refused && self.due_ms.is_none() && self.unknown == 0
    }

    /// By how many microseconds an attempt started too early, if one did: by the answer to the
    /// push, and by the due time in the attempt's record.
    pub(super) fn early_us(&self) -> Option<u64> {
        let by_record = self.records.iter().filter_map(|record| {
            let number = u64::from(record.attempt);
            let starts = self
                .starts
                .iter()
                .filter(|(attempt, ..)| *attempt == number);
            // Where a store forgets, a number may come twice, and the record is that of the last.
            let last = starts.map(|(_, at_us, _)| *at_us).max()?;
            record.due.as_micros().checked_sub(last + 1)
        });
        by_record.max().max(self.early_us)
    }

    /// How many attempts were started more than once, which no number may.
    fn repeats(&self) -> usize {
        let mut numbers: Vec<_> = self.starts.iter().map(|(number, ..)| number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.starts.len() - numbers.len()
    }

    /// What does not fit, given where the store says that the event is.
    ///
    /// For a store that forgets nothing: each start has a record, each record without a start is
    /// that of a lease that was lost before the handler's first line, and the last record says
    /// where the event is.
    pub(super) fn wrong(&self, state: Option<EventState>) -> Option<&'static str> {
        if self.is_undead {
            return Some("starts after it was cancelled");
        }
        if self.repeats() > 0 {
            return Some("starts one attempt twice");
        }
        let Some(last) = self.records.last() else {
            return Some("was accepted and nothing became of it");
        };
        let tried: Vec<_> = self.records.iter().filter(|one| one.attempt > 0).collect();
        let recorded: Vec<_> = tried.iter().map(|one| u64::from(one.attempt)).collect();
        let started: Vec<_> = self.starts.iter().map(|(number, ..)| *number).collect();
        if !recorded.is_sorted_by(|a, b| a < b) {
            return Some("has records out of order, or two of one attempt");
        }
        if started.len() > usize::from(ATTEMPTS) {
            return Some("was tried too often");
        }
        if started.iter().any(|number| !recorded.contains(number)) {
            return Some("has a start without a record");
        }
        let unstarted = tried
            .iter()
            .filter(|one| !started.contains(&u64::from(one.attempt)));
        if unstarted
            .clone()
            .any(|one| one.outcome != Outcome::LeaseLost)
        {
            return Some("has a record of what never started");
        }
        if self.cancelled && last.outcome != Outcome::Cancelled {
            return Some("was cancelled and went on");
        }
        let expected = match last.outcome {
            Outcome::Acked | Outcome::Discarded => EventState::Done,
            Outcome::Cancelled => EventState::Cancelled,
            Outcome::Buried | Outcome::LeaseLost => EventState::Dead,
            _ => return Some("ends with what is no end"),
        };
        if state != Some(expected) {
            return Some("is somewhere else than its last record says");
        }
        if expected == EventState::Done && started.is_empty() {
            return Some("is done and never started");
        }
        None
    }
}
