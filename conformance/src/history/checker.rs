//! A checker of complete histories: follows every event and reports the first broken promise.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::{ChangeResult, Entry, EntryKind, PushResult};
use super::event_history::EventHistory;
use super::expect::Expect;
use super::memory::Tombstones;
use super::promise::{BrokenPromise, Checked, Promise, broken};
use super::unique::UniqueKeyOwners;
use duly::EventId;
use duly::event::BucketId;
use duly::records::{NodeId, Outcome};
use duly::store::operation::Lease;
use duly::store::{DedupWindow, ID_AHEAD_MAX};

/// Checks a history that includes the store's operations, entry by entry.
///
/// Each entry is checked against all before, so the first mismatch is the fault. A history of
/// clients alone is for [`ClientChecker`](super::ClientChecker).
#[derive(Debug, Default)]
pub struct Checker {
    expect: Expect,
    lives: BTreeMap<EventId, EventHistory>,
    /// The attempts allowed for each push.
    pushed_attempts: BTreeMap<(EventId, u64), u16>,
    /// The number of events that are neither over nor dead letters.
    restless: usize,
    /// Events that this operation has ended: their consequences follow afterwards.
    over: Vec<(EventId, u64)>,
    /// The tombstones of each bucket.
    memories: BTreeMap<BucketId, Tombstones>,
    /// Buckets of queues that are clogged.
    may_be_late: BTreeSet<BucketId>,
    dead_nodes: BTreeSet<NodeId>,
    stopping: BTreeSet<NodeId>,
    /// Events whose accepted settlement has no record yet.
    owed: Vec<EventId>,
    /// The owners of unique keys.
    uniques: UniqueKeyOwners,
    leases_lost: u64,
    starts: u64,
}

impl Checker {
    /// Creates a checker for a scenario in which `expect` holds.
    #[must_use]
    pub fn new(expect: Expect) -> Self {
        Self {
            expect,
            ..Self::default()
        }
    }

    /// Ignores lateness in these buckets; no other queue may have a bucket of the same number.
    #[must_use]
    pub fn may_be_late(mut self, buckets: impl IntoIterator<Item = BucketId>) -> Self {
        self.may_be_late.extend(buckets);
        self
    }

    /// Reads one entry.
    ///
    /// # Errors
    ///
    /// The promise that it breaks.
    pub fn read(&mut self, entry: &Entry) -> Result<(), BrokenPromise> {
        let read = match entry.what {
            EntryKind::Died { node } => {
                self.died(entry.at_us, node);
                Ok(())
            }
            EntryKind::Stopping { node } => {
                self.stopping.insert(node);
                Ok(())
            }
            EntryKind::Stopped { node } => {
                self.stopping.remove(&node);
                return self.stopped(node);
            }
            EntryKind::Healed => {
                let settled_us = entry.store_us.saturating_add(self.expect.calm_after_us);
                let from_us = &mut self.expect.late_counts_from_us;
                *from_us = (*from_us).min(settled_us);
                Ok(())
            }
            _ => match entry.id {
                Some(id) => self.read_of_event(id, entry),
                None => broken(Promise::Accepted, "an entry has no event id"),
            },
        };
        read.map_err(|(promise, text)| BrokenPromise::new(promise, entry.id, text))
    }

    fn read_of_event(&mut self, id: EventId, entry: &Entry) -> Checked {
        match entry.what {
            EntryKind::Added {
                due,
                payload,
                attempts,
            } => {
                let memory = self.memories.get(&id.bucket());
                if self.lives.contains_key(&id) && memory.is_none_or(|it| !it.may_return(id)) {
                    return broken(Promise::Ids, "an id was accepted twice");
                }
                let ahead_us = id.created().as_micros().saturating_sub(entry.store_us);
                if self.expect.remembers.is_some()
                    && u128::from(ahead_us) > ID_AHEAD_MAX.as_micros()
                {
                    return broken(Promise::Ids, "an id from the future was accepted");
                }
                if self.is_too_old(id) {
                    return broken(
                        Promise::Ids,
                        "an id was accepted that may have been forgotten",
                    );
                }
                self.restless += 1;
                let attempts = self
                    .pushed_attempts
                    .get(&(id, payload))
                    .copied()
                    .unwrap_or(attempts);
                self.lives
                    .insert(id, EventHistory::new(entry, due, payload, attempts));
                return Ok(());
            }
            EntryKind::PushAsked { payload, attempts } => {
                self.pushed_attempts
                    .entry((id, payload))
                    .or_insert(attempts);
                return Ok(());
            }
            EntryKind::UniqueAsked {
                key,
                replaces,
                taken_by,
            } => {
                let push = (key, replaces, taken_by);
                return self.uniques.check_push(id, push, &self.lives);
            }
            EntryKind::PushAnswered {
                verdict, payload, ..
            } => {
                return self.push_answered(id, verdict, payload, entry.store_us);
            }
            EntryKind::CancelApplied {
                truth: ChangeResult::NotFound,
            } => {
                let is_there = self.lives.contains_key(&id);
                return if is_there && !self.is_forgotten(id, entry.store_us) {
                    broken(
                        Promise::Truth,
                        "a cancel reports an existing event as unknown",
                    )
                } else {
                    Ok(())
                };
            }
            EntryKind::Unknown
            | EntryKind::PushRefused
            | EntryKind::LastState { .. }
            | EntryKind::Rescheduled {
                truth: ChangeResult::NotFound,
                ..
            }
            | EntryKind::Updated {
                truth: ChangeResult::NotFound,
                ..
            }
            | EntryKind::CancelAnswered {
                truth: ChangeResult::NotFound,
            } => return Ok(()),
            _ => {}
        }
        let Some(life) = self.lives.get_mut(&id) else {
            return broken(
                Promise::Accepted,
                "an operation on an event that was never accepted",
            );
        };
        match entry.what {
            EntryKind::Started { .. } => self.starts += 1,
            EntryKind::Leased { lease, .. } if self.dead_nodes.contains(&lease.node) => {
                life.orphaned(entry.at_us);
            }
            _ => {}
        }
        let was_at_rest = life.is_at_rest();
        if self.may_be_late.contains(&id.bucket()) {
            let expect = Expect {
                late_us_max: None,
                ..self.expect
            };
            life.read(entry, &expect)?;
        } else {
            life.read(entry, &self.expect)?;
        }
        match (was_at_rest, life.is_at_rest()) {
            (false, true) => self.restless -= 1,
            (true, false) => self.restless += 1,
            _ => {}
        }
        self.leases_lost += u64::from(match entry.what {
            EntryKind::Recorded { outcome, .. } => outcome == Outcome::LeaseLost,
            EntryKind::HandedBack { .. } => true,
            _ => false,
        });
        if life.owes_record() {
            self.owed.push(id);
        }
        match entry.what {
            EntryKind::Removed => self.over.push((id, entry.store_us)),
            EntryKind::Revived => self.uniques.revived(id, &self.lives),
            _ => {}
        }
        Ok(())
    }

    /// Adds a tombstone of an event that has ended, and removes those outside of the bucket's
    /// window.
    fn remember(&mut self, id: EventId, now_us: u64) {
        let Some(window) = &self.expect.remembers else {
            return;
        };
        let memory = self.memories.entry(id.bucket()).or_default();
        for forgotten in memory.remember(id, now_us, window) {
            if let Some(life) = self.lives.get_mut(&forgotten) {
                life.is_forgotten = true;
            }
        }
    }

    /// Returns whether the bucket may have forgotten the id for certain.
    fn is_too_old(&self, id: EventId) -> bool {
        let memory = self.memories.get(&id.bucket());
        memory.is_some_and(|memory| memory.is_too_old(id))
    }

    /// Returns whether an event ended so long ago that its bucket may have dropped its tombstone by
    /// that time of the store.
    #[must_use]
    pub fn is_forgotten(&self, id: EventId, store_us: u64) -> bool {
        let may_be = |window: &DedupWindow| {
            let memory = self.memories.get(&id.bucket());
            memory.is_some_and(|memory| memory.may_have_forgotten(id, store_us, window))
        };
        let is_forgotten = self.lives.get(&id).is_some_and(|life| life.is_forgotten);
        is_forgotten || self.expect.remembers.as_ref().is_some_and(may_be)
    }

    /// Marks the end of a store operation, with all its consequences.
    ///
    /// # Errors
    ///
    /// When an attempt was settled without a record.
    pub fn operation_ends(&mut self) -> Result<(), BrokenPromise> {
        for (id, now_us) in std::mem::take(&mut self.over) {
            self.remember(id, now_us);
        }
        let owed = std::mem::take(&mut self.owed).into_iter();
        let mut owing = owed.filter(|id| self.lives.get(id).is_some_and(EventHistory::owes_record));
        let text = "an attempt ended without a record";
        match owing.next() {
            Some(id) => Err(BrokenPromise::new(Promise::Records, Some(id), text)),
            None => Ok(()),
        }
    }

    fn push_answered(
        &self,
        id: EventId,
        verdict: PushResult,
        payload: u64,
        now_us: u64,
    ) -> Checked {
        if verdict == PushResult::TooOld
            && let Some(window) = &self.expect.remembers
        {
            // A forgotten id stays forgotten: the store's decision is still valid.
            let memory = self.memories.get(&id.bucket());
            let may = memory.is_some_and(|memory| memory.may_be_too_old(id, now_us, window));
            let text = match self.lives.get(&id) {
                Some(life) if !life.is_over => "an existing event is reported as too old",
                _ if !may => "a push is reported as too old, but no id of its time was forgotten",
                _ => return Ok(()),
            };
            return broken(Promise::Ids, text);
        }
        match (self.lives.get(&id), verdict) {
            (None, PushResult::Accepted | PushResult::Duplicate | PushResult::Conflict) => broken(
                Promise::Accepted,
                "a push was confirmed, but the event is missing",
            ),
            (Some(life), PushResult::Conflict) if life.pushed == payload && !life.was_updated => {
                broken(Promise::Ids, "the same push is reported as a conflict")
            }
            (Some(life), PushResult::Accepted | PushResult::Duplicate)
                if life.pushed != payload && !life.was_updated =>
            {
                broken(
                    Promise::Ids,
                    "another payload under the same id is not reported as a conflict",
                )
            }
            _ => Ok(()),
        }
    }

    fn died(&mut self, at_us: u64, node: NodeId) {
        self.dead_nodes.insert(node);
        self.stopping.remove(&node);
        for life in self.lives.values_mut() {
            life.node_died(node, at_us);
        }
    }

    fn stopped(&self, node: NodeId) -> Result<(), BrokenPromise> {
        let held = |life: &EventHistory| life.lease.is_some_and(|lease| lease.node == node);
        match self.lives.iter().find(|(_, life)| held(life)) {
            Some((id, _)) => {
                let text = "a node reports that it has stopped, but holds an event";
                Err(BrokenPromise::new(Promise::Stopping, Some(*id), text))
            }
            None => Ok(()),
        }
    }

    /// Returns whether every accepted event has ended or is a dead letter, and every stop is done.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.restless == 0 && self.stopping.is_empty()
    }

    /// Checks deadlines that have passed.
    ///
    /// # Errors
    ///
    /// When work of a dead node waits for longer than expected.
    pub fn look(&self, at_us: u64) -> Result<(), BrokenPromise> {
        let Some(most) = self.expect.recovery_us_max else {
            return Ok(());
        };
        let waits = |life: &EventHistory| {
            life.waits_since()
                .is_some_and(|since| since.saturating_add(most) < at_us)
        };
        match self.lives.iter().find(|(_, life)| waits(life)) {
            Some((id, _)) => {
                let text = "work of a dead node was not started again in time";
                Err(BrokenPromise::new(Promise::LostWorkers, Some(*id), text))
            }
            None => Ok(()),
        }
    }

    /// Makes the final check, long after the last fault.
    ///
    /// # Errors
    ///
    /// When an event or a stop has not ended.
    pub fn end(&self) -> Result<(), BrokenPromise> {
        if !self.stopping.is_empty() {
            let text = "a node was asked to stop and never has";
            return Err(BrokenPromise::new(Promise::Stopping, None, text));
        }
        match self.lives.iter().find(|(_, life)| !life.is_at_rest()) {
            Some((id, _)) => {
                let text = "an accepted event has not ended, long after the last fault";
                Err(BrokenPromise::new(Promise::Accepted, Some(*id), text))
            }
            None => Ok(()),
        }
    }

    /// Returns since when the current due time of an event is known.
    #[must_use]
    pub fn known_at_us(&self, id: EventId) -> u64 {
        self.lives.get(&id).map_or(0, |life| life.known_at_us)
    }

    /// Returns the lease of an event.
    #[must_use]
    pub fn lease_of(&self, id: EventId) -> Option<Lease> {
        self.lives.get(&id)?.lease
    }

    /// Returns the number of started handlers.
    #[must_use]
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// Returns the number of leases taken from their nodes, whether their handlers had started or
    /// not.
    #[must_use]
    pub fn leases_lost(&self) -> u64 {
        self.leases_lost
    }
}
