//! Follows every event through the history, and says which promise was broken.
//!
//! The numbers of the invariants are those of the guide to delivery: I1 no loss, I2 never early,
//! I3 a cancel tells the truth, I4 attempts are bounded and counted, I5 every attempt leaves one
//! record, I7 fencing, I8 exclusivity, I10 a pushed id is a promise, I11 bounded recovery, I16
//! liveness.

use std::collections::{BTreeMap, BTreeSet};

use duly::EventId;
use duly::record::NodeId;

use crate::history::{Entry, Token, Told, Truth, What};
use crate::life::Life;

/// What must be so in a world beside what must always be so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expect {
    /// No fault: attempts and starts are the same number.
    pub exact: bool,
    /// No lease may be lost.
    pub leases_stand: bool,
    /// A handler starts at most so long after the due time.
    pub late_us_max: Option<u64>,
    /// Only what was known to be due after this, by the store's clock, can be late.
    pub late_counts_from_us: u64,
    /// So long after the last fault nothing of it is left.
    pub calm_after_us: u64,
    /// What a dead node held starts again within this.
    pub recovery_us_max: Option<u64>,
    /// By so much a clock that was set back may go unnoticed.
    pub early_us_max: u64,
    /// How much an event may be leased ahead of its due time.
    pub ahead_us: u64,
}

/// What the history says so far.
#[derive(Debug, Default)]
pub struct Checker {
    expect: Expect,
    lives: BTreeMap<EventId, Life>,
    /// How often what was pushed may be tried.
    asked: BTreeMap<(EventId, u64), u16>,
    /// Which id each value was pushed under: a value is pushed once.
    values: BTreeMap<u64, EventId>,
    dead_nodes: BTreeSet<NodeId>,
    stopping: BTreeSet<NodeId>,
    /// Events whose accepted settlement has no record yet.
    owed: Vec<EventId>,
    pub leases_lost: u64,
    pub starts: u64,
}

impl Checker {
    pub fn new(expect: Expect) -> Self {
        Self {
            expect,
            ..Self::default()
        }
    }

    /// Reads one line; an error names the promise that it breaks.
    pub fn read(&mut self, entry: &Entry) -> Result<(), String> {
        match entry.what {
            What::Died(node) => self.died(entry.at_us, node),
            What::Stopping(node) => {
                self.stopping.insert(node);
            }
            What::Stopped(node) => {
                self.stopping.remove(&node);
                if let Some((id, _)) = self.held_by(node).next() {
                    return Err(format!(
                        "stop: {node} says that it has stopped and holds {id}"
                    ));
                }
            }
            What::Healed => {
                let settled_us = entry.store_us + self.expect.calm_after_us;
                let from_us = &mut self.expect.late_counts_from_us;
                *from_us = (*from_us).min(settled_us);
            }
            _ => return self.read_of_event(entry),
        }
        Ok(())
    }

    fn read_of_event(&mut self, entry: &Entry) -> Result<(), String> {
        let id = entry.id.ok_or("a line of history names no event")?;
        match entry.what {
            What::Added {
                due,
                payload,
                attempts,
            } => {
                if self.lives.contains_key(&id) {
                    return Err("I10: an id was accepted twice".into());
                }
                if let Some(other) = self.values.insert(payload >> 16, id) {
                    return Err(format!(
                        "I10: what was pushed once is there twice, also as {other}"
                    ));
                }
                let attempts = self.asked.get(&(id, payload)).copied().unwrap_or(attempts);
                self.lives
                    .insert(id, Life::new(entry, due, payload, attempts));
                return Ok(());
            }
            What::PushAsked { payload, attempts } => {
                self.asked.entry((id, payload)).or_insert(attempts);
                return Ok(());
            }
            What::PushAnswered { verdict, payload } => {
                return self.push_answered(id, verdict, payload);
            }
            What::CancelApplied(Truth::NotFound) => {
                return match self.lives.contains_key(&id) {
                    true => Err("I3: a cancel says that an event is unknown which is there".into()),
                    false => Ok(()),
                };
            }
            What::Unknown
            | What::Rescheduled {
                truth: Truth::NotFound,
                ..
            }
            | What::Updated {
                truth: Truth::NotFound,
                ..
            }
            | What::CancelAnswered(Truth::NotFound) => return Ok(()),
            _ => {}
        }
        let Some(life) = self.lives.get_mut(&id) else {
            return Err("I1: something happens to an event that nobody accepted".into());
        };
        match entry.what {
            What::Started { .. } => self.starts += 1,
            What::Leased { token, .. } if self.dead_nodes.contains(&token.node) => {
                life.orphaned(entry.at_us);
            }
            _ => {}
        }
        life.read(entry, &self.expect)?;
        if let What::Recorded { outcome, .. } = entry.what {
            self.leases_lost += u64::from(outcome == duly::record::Outcome::LeaseLost);
        }
        if life.owes_record() {
            self.owed.push(id);
        }
        Ok(())
    }

    /// An operation is over: whatever it owed has been paid.
    pub fn operation_ends(&mut self) -> Result<(), String> {
        let owed = std::mem::take(&mut self.owed).into_iter();
        let mut owing = owed.filter(|id| self.lives.get(id).is_some_and(Life::owes_record));
        match owing.next() {
            Some(id) => Err(format!("I5: {id} ended an attempt without a record")),
            None => Ok(()),
        }
    }

    fn push_answered(&mut self, id: EventId, verdict: Told, payload: u64) -> Result<(), String> {
        match (self.lives.get(&id), verdict) {
            (None, Told::Accepted | Told::Duplicate | Told::Conflict) => {
                Err("I1: a push was answered, and the event is not there".into())
            }
            (Some(life), Told::Conflict) if life.pushed == payload && !life.was_updated => {
                Err("I10: the same push is called a conflict".into())
            }
            (Some(life), Told::Accepted | Told::Duplicate)
                if life.pushed != payload && !life.was_updated =>
            {
                Err("I10: another payload under the same id is not called a conflict".into())
            }
            (_, Told::TooOld) => Err("I10: a push of now is called too old".into()),
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

    fn held_by(&self, node: NodeId) -> impl Iterator<Item = (&EventId, &Life)> {
        let held = move |life: &Life| life.lease.is_some_and(|token| token.node == node);
        self.lives.iter().filter(move |(_, life)| held(life))
    }

    /// Whether everything that was accepted is over or a dead letter.
    pub fn is_at_rest(&self) -> bool {
        self.lives.values().all(Life::is_at_rest) && self.stopping.is_empty()
    }

    /// Looks for what should have happened by now.
    pub fn look(&self, at_us: u64) -> Result<(), (EventId, String)> {
        let Some(most) = self.expect.recovery_us_max else {
            return Ok(());
        };
        for (id, life) in &self.lives {
            if life.waits_since().is_some_and(|since| since + most < at_us) {
                return Err((
                    *id,
                    "I11: work of a dead node was not started again in time".into(),
                ));
            }
        }
        Ok(())
    }

    /// The last word: what never ended.
    pub fn end(&self) -> Result<(), (Option<EventId>, String)> {
        if !self.stopping.is_empty() {
            return Err((None, "stop: a node was told to stop and never has".into()));
        }
        match self.lives.iter().find(|(_, life)| !life.is_at_rest()) {
            Some((id, _)) => Err((
                Some(*id),
                "I16: an accepted event was never over, long after everything was well".into(),
            )),
            None => Ok(()),
        }
    }

    /// Since when an event is known to be due when it is.
    pub fn known_at_us(&self, id: EventId) -> u64 {
        self.lives.get(&id).map_or(0, |life| life.known_at_us)
    }

    /// The lease that an event is under.
    pub fn lease_of(&self, id: EventId) -> Option<Token> {
        self.lives.get(&id)?.lease
    }
}
