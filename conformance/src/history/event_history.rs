//! The state of one event in a complete history.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::{AttemptEnd, ChangeResult, Entry, EntryKind};
use super::expect::Expect;
use super::promise::{Checked, Promise, broken};
use duly::event::State;
use duly::records::NodeId;
use duly::store::operation::Lease;
use duly::time::Timestamp;

/// An accepted event.
#[derive(Debug)]
pub(super) struct EventHistory {
    /// The payload.
    pub(super) pushed: u64,
    pub(super) was_updated: bool,
    pub(super) lease: Option<Lease>,
    /// The deadline of the lease, at least, if it has one of its own.
    pub(super) until: Option<Timestamp>,
    pub(super) is_dead: bool,
    pub(super) payload: u64,
    pub(super) attempts: u32,
    pub(super) due: Timestamp,
    /// Since when the due time is known, in real time and in the store's.
    pub(super) known_at_us: u64,
    pub(super) known_us: u64,
    /// The attempts that count.
    pub(super) tries: u32,
    /// Whether a lease was lost, so that a handler may still run.
    pub(super) may_still_run: bool,
    pub(super) is_over: bool,
    /// Whether its bucket may have dropped its tombstone.
    pub(super) is_forgotten: bool,
    /// Whether a cancel was applied, so that no handler may start.
    pub(super) is_cancelled: bool,
    /// Whether a client received the result of the cancel.
    pub(super) is_cancel_told: bool,
    pub(super) starts: u32,
    pub(super) snoozes: u32,
    pub(super) revivals: u32,
    /// Leases under which a handler has started.
    pub(super) started: BTreeSet<Lease>,
    pub(super) running: BTreeSet<Lease>,
    pub(super) lost: BTreeSet<Lease>,
    /// Leases that have ended.
    pub(super) closed: BTreeSet<Lease>,
    /// The outcome of each attempt on its node, and the requested delay.
    pub(super) ended: BTreeMap<Lease, (AttemptEnd, u64)>,
    pub(super) last_settled: Option<(Lease, AttemptEnd)>,
    pub(super) owed: Option<AttemptEnd>,
    pub(super) orphaned_us: Option<u64>,
}

impl EventHistory {
    pub(super) fn new(entry: &Entry, due: Timestamp, payload: u64, attempts: u16) -> Self {
        Self {
            pushed: payload,
            was_updated: false,
            lease: None,
            until: None,
            is_dead: false,
            payload,
            attempts: u32::from(attempts),
            due,
            known_at_us: entry.at_us,
            known_us: entry.store_us,
            tries: 0,
            may_still_run: false,
            is_over: false,
            is_forgotten: false,
            is_cancelled: false,
            is_cancel_told: false,
            starts: 0,
            snoozes: 0,
            revivals: 0,
            started: BTreeSet::new(),
            running: BTreeSet::new(),
            lost: BTreeSet::new(),
            closed: BTreeSet::new(),
            ended: BTreeMap::new(),
            last_settled: None,
            owed: None,
            orphaned_us: None,
        }
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.is_over || self.is_dead
    }

    pub(super) fn owes_record(&self) -> bool {
        self.owed.is_some()
    }

    /// Returns since when it waits for a restart after its node died.
    pub(super) fn waits_since(&self) -> Option<u64> {
        self.orphaned_us.filter(|_| !self.is_at_rest())
    }

    /// Its lease is that of a dead node. The wait begins anew if the node that took over from
    /// another dead one died as well.
    pub(super) fn orphaned(&mut self, at_us: u64) {
        self.orphaned_us = Some(at_us);
    }

    pub(super) fn node_died(&mut self, node: NodeId, at_us: u64) {
        self.running.retain(|lease| lease.node != node);
        if self.lease.is_some_and(|lease| lease.node == node) {
            self.orphaned(at_us);
        }
    }

    pub(super) fn read(&mut self, entry: &Entry, expect: &Expect) -> Checked {
        match entry.what {
            EntryKind::CancelApplied { truth } => self.cancelled(truth),
            EntryKind::Replaced if self.lease.is_some() => {
                broken(Promise::Truth, "a leased event was replaced")
            }
            EntryKind::Replaced => {
                self.is_cancelled = true;
                Ok(())
            }
            EntryKind::CancelAnswered { truth } => {
                self.is_cancel_told |= truth == ChangeResult::Done;
                match truth {
                    ChangeResult::Done if self.may_still_run => broken(
                        Promise::Truth,
                        "a client is told done, but the handler of a lost lease may still run",
                    ),
                    ChangeResult::Done if !self.running.is_empty() => broken(
                        Promise::Truth,
                        "a cancel is reported as done while a handler runs",
                    ),
                    _ => Ok(()),
                }
            }
            EntryKind::Rescheduled { truth, due } => self.changed(truth, |life| {
                life.due = due;
                life.due_is_known(entry);
            }),
            EntryKind::Updated { truth, payload } => self.changed(truth, |life| {
                life.payload = payload;
                life.was_updated = true;
            }),
            EntryKind::Leased {
                lease,
                attempt,
                due,
                payload,
            } => self.leased(entry, expect, lease, attempt, due, payload),
            EntryKind::Held { lease, until } => {
                if self.lease == Some(lease) {
                    self.until.get_or_insert(until);
                }
                Ok(())
            }
            EntryKind::Extended {
                lease,
                stood: true,
                until,
            } => {
                if self.lease == Some(lease) {
                    self.until = Some(until);
                    Ok(())
                } else {
                    broken(Promise::LostWorkers, "a lease that has ended was extended")
                }
            }
            EntryKind::Started {
                lease,
                due,
                payload,
                ..
            } => self.started(entry, expect, lease, due, payload),
            EntryKind::Ended {
                lease,
                ending,
                delay_us,
            } => {
                self.running.remove(&lease);
                self.ended.insert(lease, (ending, delay_us));
                Ok(())
            }
            EntryKind::Settled {
                lease,
                ending,
                accepted,
            } => self.settled(entry, lease, ending, accepted),
            EntryKind::Recorded {
                node,
                attempt,
                outcome,
                ..
            } => {
                self.due_is_known(entry);
                self.recorded(entry, expect, node, attempt, outcome)
            }
            EntryKind::HandedBack { lease } => self.handed_back(entry, expect, lease),
            EntryKind::Buried => {
                self.is_dead = true;
                self.orphaned_us = None;
                Ok(())
            }
            EntryKind::Revived => {
                self.is_dead = false;
                self.tries = 0;
                self.revivals += 1;
                self.due = Timestamp::EPOCH;
                self.due_is_known(entry);
                Ok(())
            }
            EntryKind::Removed => {
                self.is_over = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// From here on its lateness and its wait count.
    pub(super) fn due_is_known(&mut self, entry: &Entry) {
        (self.known_at_us, self.known_us) = (entry.at_us, entry.store_us);
    }

    fn cancelled(&mut self, truth: ChangeResult) -> Checked {
        match truth {
            ChangeResult::Done | ChangeResult::DoneAfterAttempt if self.lease.is_some() => {
                broken(Promise::Truth, "a leased event was cancelled")
            }
            ChangeResult::Done if self.may_still_run => broken(
                Promise::Truth,
                "a cancel is reported as done, but the handler of a lost lease may still run",
            ),
            ChangeResult::DoneAfterAttempt if !self.may_still_run => broken(
                Promise::Truth,
                "a cancel reports a lost lease, but none was lost",
            ),
            ChangeResult::Done | ChangeResult::DoneAfterAttempt => {
                self.is_cancelled = true;
                Ok(())
            }
            ChangeResult::TooLate(State::Leased) if self.lease.is_none() => broken(
                Promise::Truth,
                "a cancel reports too late, but the event is not leased",
            ),
            ChangeResult::TooLate(State::Dead) if !self.is_dead => broken(
                Promise::Truth,
                "a cancel reports dead, but the event is not",
            ),
            ChangeResult::TooLate(state) if state.is_final() != self.is_over => broken(
                Promise::Truth,
                "a cancel reports a state that the event is not in",
            ),
            _ => Ok(()),
        }
    }

    fn changed(&mut self, truth: ChangeResult, change: impl FnOnce(&mut Self)) -> Checked {
        match truth {
            ChangeResult::Done | ChangeResult::DoneAfterAttempt
                if self.lease.is_some() || self.is_over =>
            {
                broken(
                    Promise::Truth,
                    "an event was changed while it was leased or after its end",
                )
            }
            ChangeResult::Done if self.may_still_run => broken(
                Promise::Truth,
                "a change is reported as done, but the handler of a lost lease may still run",
            ),
            ChangeResult::Done | ChangeResult::DoneAfterAttempt => {
                change(self);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
