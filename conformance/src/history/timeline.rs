//! The state of one event in a history of clients, and its consistency check.

use std::collections::BTreeMap;

use super::entry::{AttemptEnd, ChangeResult, Entry, EntryKind, PushResult};
use super::promise::{Promise, Violation};
use super::report::Report;
use duly::event::State;
use duly::records::{NodeId, Outcome};
use duly::store::operation::Lease;
use duly::time::Timestamp;

/// One event.
#[derive(Debug, Default)]
pub(super) struct EventTimeline {
    pub(super) payload: u64,
    pub(super) attempts: u16,
    /// Starts before the due time.
    pub(super) early: u64,
    is_asked: bool,
    is_accepted: bool,
    is_refused: bool,
    /// Whether its pusher was told that another event has its unique key, or that its id is too
    /// old. A later copy of the push may still be accepted.
    is_turned_down: bool,
    unknown: u64,
    /// Whether its payload was changed.
    is_updated: bool,
    is_cancelled: bool,
    /// Whether it started after a confirmed cancel.
    ran_after_cancel: bool,
    /// The due time of the last receipt of each payload.
    dues: BTreeMap<u64, Timestamp>,
    /// Whether its due time was changed, so that receipts no longer apply.
    is_moved: bool,
    starts: Vec<Start>,
    records: Vec<AttemptRecord>,
    revivals: u64,
    /// The index of the first record since the last revival.
    revived_at: usize,
    /// The last state, and whether it was read.
    state: Option<State>,
    is_found: bool,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    lease: Lease,
    attempt: u16,
}

#[derive(Clone, Copy, Debug)]
struct AttemptRecord {
    node: NodeId,
    attempt: u16,
    outcome: Outcome,
}

impl AttemptRecord {
    /// Returns whether it is the record of this attempt. The store may not know the node of an
    /// attempt that was recovered after a kill.
    fn is_of(&self, start: &Start) -> bool {
        let is_unknown = self.outcome == Outcome::LeaseLost && self.node == NodeId::default();
        self.attempt == start.attempt && (is_unknown || self.node == start.lease.node)
    }
}

impl EventTimeline {
    pub(super) fn read(&mut self, entry: &Entry, early_us_max: u64) {
        match entry.what {
            EntryKind::PushAsked { payload, attempts } => {
                if !self.is_asked {
                    self.payload = payload;
                }
                // Only the reply tells which of several pushes was accepted.
                self.attempts = self.attempts.max(attempts);
                self.is_asked = true;
            }
            EntryKind::PushAnswered {
                verdict,
                payload,
                due,
            } => match verdict {
                PushResult::Accepted => {
                    self.is_accepted = true;
                    let due = due.unwrap_or(Timestamp::EPOCH);
                    // Accepted twice: the store had lost the first, and its delivery may still be
                    // on a node.
                    let first = self.dues.entry(payload).or_insert(due);
                    *first = due.min(*first);
                }
                PushResult::Duplicate => {
                    self.is_accepted = true;
                    self.dues.insert(payload, due.unwrap_or(Timestamp::EPOCH));
                }
                // Its own payload may have been there, and was changed since.
                PushResult::Conflict => self.unknown += u64::from(self.is_updated),
                PushResult::KeyTaken | PushResult::TooOld | PushResult::TooNew => {
                    self.is_turned_down = true;
                }
                PushResult::Unknown => self.unknown += 1,
            },
            EntryKind::PushRefused => self.is_refused = true,
            EntryKind::Unknown => self.unknown += 1,
            EntryKind::CancelAnswered { truth } => self.is_cancelled |= truth == ChangeResult::Done,
            EntryKind::Rescheduled { .. }
            | EntryKind::Ended {
                ending: AttemptEnd::Retry | AttemptEnd::Snooze | AttemptEnd::Interrupt,
                ..
            } => self.is_moved = true,
            EntryKind::Started {
                lease,
                attempt,
                due,
                payload,
            } => {
                self.ran_after_cancel |= self.is_cancelled;
                // A repeated push returns the current due time, so only starts after a reply are
                // checked against it; and if a store has lost the event and has accepted its id
                // again, each payload has its own.
                let known = self.dues.get(&payload).filter(|_| !self.is_moved);
                let due = known.map_or(due, |known| due.max(*known));
                self.early +=
                    u64::from(due.as_micros() > entry.store_us.saturating_add(early_us_max));
                self.starts.push(Start { lease, attempt });
            }
            EntryKind::Recorded {
                node,
                attempt,
                outcome,
                ..
            } => self.records.push(AttemptRecord {
                node,
                attempt,
                outcome,
            }),
            EntryKind::Revived => {
                self.is_moved = true;
                self.revivals += 1;
                self.revived_at = self.records.len();
            }
            EntryKind::Updated {
                truth: ChangeResult::Done,
                ..
            } => self.is_updated = true,
            EntryKind::LastState { state } => (self.state, self.is_found) = (state, true),
            _ => {}
        }
    }

    /// Returns whether the push may have happened without a confirmation.
    pub(super) fn is_open(&self) -> bool {
        let is_told = self.is_accepted || self.is_turned_down;
        self.is_asked && !is_told && !(self.is_refused && self.unknown == 0)
    }

    /// Returns whether nothing is known of it but that it was accepted.
    pub(super) fn is_lost(&self) -> bool {
        self.is_accepted && !self.happened()
    }

    fn happened(&self) -> bool {
        self.state.is_some() || !self.starts.is_empty() || !self.records.is_empty()
    }

    pub(super) fn count(&self, report: &mut Report) {
        let lost = |kept: &&AttemptRecord| kept.outcome == Outcome::LeaseLost;
        report.pushed += u64::from(self.is_asked);
        report.answered += u64::from(self.is_accepted);
        report.unknown += self.unknown;
        report.refused += u64::from(!self.is_accepted && self.is_refused && self.unknown == 0);
        report.cancelled += u64::from(self.is_cancelled);
        report.handled += u64::from(!self.starts.is_empty());
        report.handled_again += u64::from(self.starts.len() > 1);
        report.starts += self.starts.len() as u64;
        report.leases_lost += self.records.iter().filter(lost).count() as u64;
        report.dead += u64::from(self.state == Some(State::Dead));
        report.early += self.early;
    }

    /// Returns the first violation.
    pub(super) fn wrong(&self) -> Option<Violation> {
        let known = (self.is_accepted, self.is_refused);
        match known {
            _ if !self.is_asked && self.happened() => {
                Some((Promise::Doubt, "an event happened that was never pushed"))
            }
            (false, true) if self.unknown == 0 => {
                let text = "a push was refused, but it happened";
                self.happened().then_some((Promise::Doubt, text))
            }
            (false, _) if !self.happened() => None,
            _ => self.wrong_starts().or_else(|| self.wrong_end()),
        }
    }

    fn wrong_starts(&self) -> Option<Violation> {
        if self.ran_after_cancel {
            return Some((Promise::Truth, "it started after it was cancelled"));
        }
        let same = |one: &Start, other: &Start| one.lease == other.lease;
        let twice = |(at, one): (usize, &Start)| self.starts[..at].iter().any(|o| same(o, one));
        if self.starts.iter().enumerate().any(twice) {
            return Some((Promise::LostWorkers, "it started twice under one lease"));
        }
        let free = self.records_of(Outcome::Snoozed) + self.records_of(Outcome::Interrupted);
        let most = u64::from(self.attempts) * (1 + self.revivals) + free as u64;
        if self.starts.len() as u64 > most {
            return Some((Promise::Attempts, "it was tried too often"));
        }
        let tried = self.records[self.revived_at..].iter();
        let is_free =
            |kept: &AttemptRecord| matches!(kept.outcome, Outcome::Snoozed | Outcome::Interrupted);
        let tried = tried.filter(|kept| kept.attempt > 0 && !is_free(kept));
        if !tried.map(|kept| kept.attempt).is_sorted_by(|a, b| a < b) {
            return Some((
                Promise::Attempts,
                "its records are out of order, or two are of one attempt",
            ));
        }
        let text = "an attempt started and has no record";
        let unrecorded = |start: &&Start| {
            let same = self.starts.iter().filter(|other| {
                (other.lease.node, other.attempt) == (start.lease.node, start.attempt)
            });
            let kept = self.records.iter().filter(|kept| kept.is_of(start));
            same.count() > kept.count()
        };
        let found = self.starts.iter().find(unrecorded);
        found.map(|_| (Promise::Records, text))
    }

    fn wrong_end(&self) -> Option<Violation> {
        let unstarted = self.records.iter().find(|kept| {
            let of_handler = matches!(
                kept.outcome,
                Outcome::Acked | Outcome::Retried | Outcome::Snoozed | Outcome::Interrupted
            );
            of_handler && !self.starts.iter().any(|start| kept.is_of(start))
        });
        if unstarted.is_some() {
            let text = "a record has a handler that never started";
            return Some((Promise::Records, text));
        }
        let Some(last) = self.records.last() else {
            let text = "it was accepted and left no trace";
            return Some((Promise::Accepted, text));
        };
        if self.is_cancelled && last.outcome != Outcome::Cancelled {
            return Some((Promise::Truth, "it was cancelled but went on"));
        }
        let expected = match last.outcome {
            Outcome::Acked => State::Done,
            Outcome::Discarded => State::Discarded,
            Outcome::Cancelled | Outcome::Dropped => State::Cancelled,
            Outcome::Expired => State::Expired,
            Outcome::Buried | Outcome::LeaseLost | Outcome::Edited => State::Dead,
            Outcome::Retried | Outcome::Snoozed | Outcome::Interrupted | Outcome::Revived => {
                let text = "its last record is no end";
                return Some((Promise::Accepted, text));
            }
            // This crate is of the same version as duly, which has no other.
            other => unreachable!("{other:?}"),
        };
        if self.is_found && self.state != Some(expected) {
            let text = "its state differs from its last record";
            return Some((Promise::Records, text));
        }
        None
    }

    fn records_of(&self, outcome: Outcome) -> usize {
        let same = |kept: &&AttemptRecord| kept.outcome == outcome;
        self.records.iter().filter(same).count()
    }
}
