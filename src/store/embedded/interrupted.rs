//! Interrupted attempts: they had started when the process before ended, and are used up.

use std::collections::{HashMap, HashSet};

use crate::core::engine::Restored;
use crate::core::op::UsedAttempts;
use crate::event::{BucketKey, EventId};
use crate::record::{Cause, NodeId, Outcome, Record, Stages};
use crate::store::embedded::change::{Change, Changes};
use crate::store::embedded::row::Row;
use crate::store::embedded::starts::Start;
use crate::time::Timestamp;

/// The notes of starts, and what the records say of them.
#[derive(Debug)]
pub(super) struct InterruptedAttempts {
    /// What started and has no record.
    begun: HashSet<Start>,
    /// The same, by event and in the order of due times, once the records are read.
    begun_of: HashMap<EventId, Vec<Start>>,
    /// When an event was revived last, as far as that is on record, and the number of that record:
    /// what of it was due before is over, although the record that says so may be damaged.
    revived: HashMap<EventId, (u64, Timestamp)>,
    /// Records of attempts that were due before this may be gone.
    recorded_from: Timestamp,
    now: Timestamp,
}

impl InterruptedAttempts {
    /// All that was noted; `now` is when it is found to be unsettled.
    pub(super) fn new(begun: HashSet<Start>, now: Timestamp) -> Self {
        Self {
            begun,
            begun_of: HashMap::new(),
            revived: HashMap::new(),
            recorded_from: Timestamp::EPOCH,
            now,
        }
    }

    /// Takes in what a record says; they come in the order of their times, which a clock that was
    /// set back puts in another order than that of their numbers.
    pub(super) fn read(&mut self, number: u64, record: &Record) {
        self.begun.remove(&Start::of(record));
        if record.outcome == Outcome::Revived {
            let revived = self.revived.entry(record.id).or_default();
            *revived = (number, record.due).max(*revived);
        }
    }

    /// When they are found to be unsettled.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Records of attempts that were due before then may be gone.
    pub(super) fn recorded_from(&mut self, time: Timestamp) {
        self.recorded_from = time;
    }

    /// Sorts what no record has ended.
    pub(super) fn sort(&mut self) {
        for start in self.begun.drain() {
            self.begun_of.entry(start.id).or_default().push(start);
        }
        for begun in self.begun_of.values_mut() {
            begun.sort_unstable_by_key(|start| (start.due, start.attempt));
        }
    }

    /// Handlers of the event had started, and nothing says how they ended: each has used its
    /// attempt, which is added to `changes`.
    ///
    /// There may be several: an outcome may have been decided and never written, and the next
    /// attempt begun. So may a revive or a reschedule, by which one began: it has taken effect.
    pub(super) fn count(
        &mut self,
        key: &BucketKey,
        restored: &mut Restored<i64>,
        changes: &mut Changes,
    ) {
        let Some(begun) = self.begun_of.remove(&restored.id) else {
            return;
        };
        let revived = self.revived.get(&restored.id).map(|(_, due)| *due);
        let recorded_from = self.recorded_from.max(revived.unwrap_or(Timestamp::EPOCH));
        let died = restored.dead_at;
        for start in begun {
            let next = (restored.tries.saturating_add(1), restored.due);
            let is_over = match died {
                Some(died) => start.due < died,
                // Its record may be gone.
                None => start.due < recorded_from && (start.attempt, start.due) != next,
            };
            if is_over {
                continue;
            }
            if restored.dead_at.take().is_some() {
                (restored.tries, restored.interruptions) = (0, 0);
                restored.due = start.due;
            }
            while restored.dead_at.is_none() && restored.tries < start.attempt {
                // A reschedule may have been acknowledged since: the note of a release, on which it
                // followed, is not synced.
                restored.due = restored.due.max(start.due);
                self.count_one(key, start.due, restored, changes);
            }
        }
    }

    /// Its handler had started, due at `begun`, and nobody knows how it ended: it may have killed the
    /// process.
    fn count_one(
        &self,
        key: &BucketKey,
        begun: Timestamp,
        restored: &mut Restored<i64>,
        changes: &mut Changes,
    ) {
        restored.tries = restored.tries.saturating_add(1);
        let (row, tries) = (Row::new(restored.body, restored.id), restored.tries);
        let (due, interruptions) = (restored.due, restored.interruptions);
        let used = UsedAttempts {
            tries,
            interruptions,
        };
        changes.list.push(Change::Stands { row, due, used });
        if tries >= restored.attempts {
            let at = self.now;
            restored.dead_at = Some(at);
            changes.list.push(Change::Dead { row, at, tries });
        }
        let record = Record {
            id: restored.id,
            queue: key.queue.clone(),
            key: restored.key.clone(),
            attempt: tries,
            outcome: Outcome::LeaseLost,
            cause: Some(Cause::LeaseLost),
            due: begun,
            stages: Stages {
                finished_us: self.now.as_micros(),
                ..Stages::default()
            },
            node: NodeId::default(),
            error: Some("the process ended while the handler ran".to_owned()),
            trace: None,
            payload: None,
            by: None,
        };
        changes.record(record, restored.tells.then_some(row));
    }
}
