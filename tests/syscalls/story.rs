//! What is known of one event, and whether it fits together.

use std::collections::{BTreeMap, HashMap};

use duly::event::State as EventState;
use duly::prelude::*;
use duly::records::{Cause, Record};

use crate::syscalls::diary::{Answer, Ask, Line, Task};
use crate::syscalls::work::ATTEMPTS;

/// A start of a handler, as it was written down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    attempt: u16,
    at_us: u64,
    task: Task,
    ends: Outcome,
    /// After a cancel or a drop was answered with yes.
    is_undead: bool,
    /// After an update was answered with yes.
    is_updated: bool,
}

/// What is known of one event.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    pub(crate) task: Task,
    pub(crate) far: bool,
    pub(crate) replaces: Option<EventId>,
    /// The event that takes its place, and whether that was answered with yes.
    replaced: Option<bool>,
    /// What was asked, with the answer where there is one; of two the last.
    asked: HashMap<Ask, Option<Answer>>,
    pub(crate) starts: Vec<Start>,
    pub(crate) records: Vec<Record>,
    /// The store knew it when it was opened after the last death.
    pub(crate) was_there: bool,
}

/// Reads the diary into a story for each event.
pub(crate) fn tell(lines: &[Line]) -> BTreeMap<EventId, Story> {
    let mut stories: BTreeMap<EventId, Story> = BTreeMap::new();
    for line in lines {
        match line {
            Line::Pushing {
                id,
                task,
                replaces,
                far,
            } => {
                if let Some(replaced) = replaces.and_then(|id| stories.get_mut(&id)) {
                    replaced.replaced = Some(false);
                }
                let story = Story {
                    task: *task,
                    far: *far,
                    replaces: *replaces,
                    replaced: None,
                    asked: HashMap::from([(Ask::Push, None)]),
                    starts: Vec::new(),
                    records: Vec::new(),
                    was_there: false,
                };
                stories.insert(*id, story);
            }
            Line::Asking { id, ask } => {
                let story = stories.get_mut(id).expect("it was pushed before");
                story.asked.insert(*ask, None);
            }
            Line::Answered { id, ask, answer } => {
                let story = stories.get_mut(id).expect("it was pushed before");
                story.asked.insert(*ask, Some(answer.clone()));
                let replaces = story.replaces.filter(|_| is_yes(answer));
                if let Some(replaced) = replaces.and_then(|id| stories.get_mut(&id)) {
                    replaced.replaced = Some(true);
                }
            }
            Line::Started {
                id,
                attempt,
                at_us,
                task,
                ends,
            } => {
                let story = stories.get_mut(id).expect("it was pushed before");
                let start = Start {
                    attempt: *attempt,
                    at_us: *at_us,
                    task: *task,
                    ends: *ends,
                    is_undead: story.is(Ask::Cancel) || story.is(Ask::Drop),
                    is_updated: story.is(Ask::Update),
                };
                story.starts.push(start);
            }
            Line::Rate { .. } | Line::Opened | Line::NotOpened(_) | Line::Ended(_) => {}
        }
    }
    stories
}

/// What the rate of the other queue may be: the last that was answered with yes, or one that was
/// asked for since then and not refused.
pub(crate) fn rates(lines: &[Line]) -> Vec<Option<f64>> {
    let mut rates = vec![None];
    for line in lines {
        match line {
            Line::Rate { rate, answer: None } => rates.push(Some(*rate)),
            Line::Rate {
                rate,
                answer: Some(Answer::Yes { .. }),
            } => rates = vec![Some(*rate)],
            Line::Rate {
                answer: Some(Answer::Refused(_)),
                ..
            } => drop(rates.pop()),
            _ => {}
        }
    }
    rates
}

fn is_yes(answer: &Answer) -> bool {
    matches!(answer, Answer::Yes { .. })
}

impl Story {
    pub(crate) fn answer(&self, ask: Ask) -> Option<&Answer> {
        self.asked.get(&ask)?.as_ref()
    }

    /// Whether this was answered with yes.
    fn is(&self, ask: Ask) -> bool {
        self.answer(ask).is_some_and(is_yes)
    }

    /// Whether this may be so: it was asked, and not refused.
    fn may_be(&self, ask: Ask) -> bool {
        let refused = matches!(self.answer(ask), Some(Answer::Refused(_) | Answer::No(_)));
        self.asked.contains_key(&ask) && !refused
    }

    pub(crate) fn leases_lost(&self) -> usize {
        let lost = |record: &&Record| record.outcome == Outcome::LeaseLost;
        self.records.iter().filter(lost).count()
    }

    /// Whether an attempt started before it was due: by the answers, or by its record.
    pub(crate) fn is_early(&self) -> bool {
        let due_us = |ask| match self.answer(ask) {
            Some(Answer::Yes {
                due_ms: Some(due_ms),
            }) => due_ms * 1_000,
            _ => 0,
        };
        let due_us = if self.asked.contains_key(&Ask::Reschedule) {
            due_us(Ask::Reschedule)
        } else {
            due_us(Ask::Push)
        };
        let by_answer = self.starts.iter().any(|start| start.at_us < due_us);
        let (starts, _) = self.aligned();
        let by_record = starts
            .iter()
            .zip(&self.records)
            .any(|(start, record)| start.is_some_and(|start| start.at_us < record.due.as_micros()));
        by_answer || by_record
    }

    /// The start that belongs to each record, if there is one, and how many starts are left over.
    ///
    /// A snooze that was never written is no end: the attempt began again and had no other.
    fn aligned(&self) -> (Vec<Option<&Start>>, usize) {
        let mut starts = self.starts.iter().peekable();
        let own = |record: &Record| {
            let is_own = |start: &&Start| start.attempt == record.attempt;
            let mut own = starts.next_if(is_own);
            while record.outcome != Outcome::Snoozed
                && own.is_some_and(|start| start.ends == Outcome::Snoozed)
                && let Some(again) = starts.next_if(is_own)
            {
                own = Some(again);
            }
            own
        };
        let aligned = self.records.iter().map(own).collect();
        (aligned, starts.count())
    }

    /// What does not fit, given where the store says that the event is.
    pub(crate) fn wrong(&self, state: Option<EventState>, deaths: usize) -> Option<&'static str> {
        if self.starts.iter().any(|start| start.is_undead) {
            return Some("starts after it was taken back");
        }
        if self
            .starts
            .iter()
            .any(|start| start.is_updated && start.task == self.task)
        {
            return Some("starts with the payload from before its update");
        }
        let (starts, left) = self.aligned();
        if left > 0 {
            return Some("has a start without a record");
        }
        // One whose note was written and whose first line did not run.
        let unstarted = starts.iter().zip(&self.records);
        let unstarted = unstarted.filter(|(start, record)| start.is_none() && record.attempt > 0);
        if unstarted.count() > deaths {
            return Some("lost attempts that never started");
        }
        self.wrong_attempt(&starts)
            .or_else(|| self.wrong_end(state))
    }

    /// Each record is that of the attempt that comes next, and ends as its handler said.
    fn wrong_attempt(&self, starts: &[Option<&Start>]) -> Option<&'static str> {
        let (mut next, mut is_over) = (1, false);
        for (record, start) in self.records.iter().zip(starts) {
            if is_over {
                return Some("has a record after its end");
            }
            if record.outcome == Outcome::Revived && next == 0 && self.may_be(Ask::Revive) {
                next = 1;
                continue;
            }
            if record.attempt == 0 {
                let is_legal = match record.outcome {
                    Outcome::Cancelled => self.may_be(Ask::Cancel) || self.replaced.is_some(),
                    Outcome::Dropped => self.may_be(Ask::Drop) && next == 0,
                    _ => false,
                };
                if !is_legal {
                    return Some("has a record of what nobody did");
                }
                is_over = true;
                continue;
            }
            // A handler may start by a revive that was never written.
            if next == 0 && self.may_be(Ask::Revive) && !self.is(Ask::Revive) {
                next = 1;
            }
            if record.attempt != next {
                return Some("has a record of an attempt out of order");
            }
            match (record.outcome, start) {
                (Outcome::LeaseLost, _) => {}
                (outcome, Some(start)) if outcome == start.ends => {}
                // The script ended while it ran.
                (Outcome::Retried | Outcome::Buried | Outcome::Interrupted, Some(_))
                    if record.cause == Some(Cause::Interrupted) => {}
                (_, Some(_)) => return Some("ends otherwise than its handler"),
                (_, None) => return Some("has a record of what never started"),
            }
            next = match record.outcome {
                Outcome::Snoozed | Outcome::Interrupted => next,
                Outcome::Retried => next + 1,
                Outcome::LeaseLost if next < ATTEMPTS => next + 1,
                Outcome::Buried | Outcome::LeaseLost => 0,
                _ => {
                    is_over = true;
                    next
                }
            };
        }
        None
    }

    /// Its state is what the last record says, and what was answered with yes is so.
    fn wrong_end(&self, state: Option<EventState>) -> Option<&'static str> {
        let last = self
            .records
            .last()
            .map(|record| (record.attempt, record.outcome));
        let expected = match last {
            Some((_, Outcome::Dropped | Outcome::Cancelled)) => EventState::Cancelled,
            Some((_, Outcome::Acked)) => EventState::Done,
            Some((_, Outcome::Discarded)) => EventState::Discarded,
            // It had started by a reschedule that was never written, so it is due when it was before.
            Some((attempt, Outcome::LeaseLost))
                if attempt < ATTEMPTS
                    && self.far
                    && self.may_be(Ask::Reschedule)
                    && !self.is(Ask::Reschedule) =>
            {
                EventState::Scheduled
            }
            Some((_, Outcome::Buried | Outcome::LeaseLost)) => EventState::Dead,
            Some(_) => return Some("ends with what is no end"),
            None if self.far && !self.is(Ask::Reschedule) => EventState::Scheduled,
            None => return Some("was accepted and nothing became of it"),
        };
        if state != Some(expected) {
            return Some("is somewhere else than its last record says");
        }
        let mut records = self.records.iter();
        let is_revived = records.any(|one| one.outcome == Outcome::Revived);
        let broken = [
            (Ask::Cancel, expected != EventState::Cancelled),
            (Ask::Drop, expected != EventState::Cancelled),
            (Ask::Revive, !is_revived),
            (Ask::Reschedule, expected == EventState::Scheduled),
        ];
        if broken.iter().any(|(ask, broken)| *broken && self.is(*ask)) {
            return Some("is not what the answer to a change said");
        }
        if self.replaced == Some(true) && expected != EventState::Cancelled {
            return Some("was replaced and went on");
        }
        None
    }
}
