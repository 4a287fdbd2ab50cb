//! One event, as its history tells it.

use std::collections::{BTreeMap, BTreeSet};

use duly::event::State;
use duly::record::NodeId;
use duly::time::Timestamp;

use crate::checker::Expect;
use crate::history::{Ending, Entry, Token, Truth, What};

/// An accepted event.
#[derive(Debug)]
pub struct Life {
    /// What was pushed.
    pub pushed: u64,
    pub was_updated: bool,
    pub lease: Option<Token>,
    pub is_dead: bool,
    pub payload: u64,
    pub attempts: u32,
    pub due: Timestamp,
    /// Since when it is known to be due then, in true time and in the store's.
    pub known_at_us: u64,
    pub known_us: u64,
    /// Attempts that count.
    pub tries: u32,
    /// A lease was lost once.
    pub is_haunted: bool,
    pub is_over: bool,
    /// A cancel was applied, and nobody may start any more.
    pub is_cancelled: bool,
    /// A client was told so.
    pub is_cancel_told: bool,
    pub starts: u32,
    pub snoozes: u32,
    pub revivals: u32,
    /// Leases under which a handler has started.
    pub started: BTreeSet<Token>,
    pub running: BTreeSet<Token>,
    pub lost: BTreeSet<Token>,
    /// Leases that are over, however they ended.
    pub closed: BTreeSet<Token>,
    /// How each attempt ended where it ran, and until when it wanted to rest.
    pub ended: BTreeMap<Token, (Ending, u64)>,
    pub last_settled: Option<(Token, Ending)>,
    pub owed: Option<Ending>,
    pub orphaned_us: Option<u64>,
}

/// What is wrong, if anything is.
pub type Verdict = Result<(), String>;

pub fn broken(text: &str) -> Verdict {
    Err(text.to_owned())
}

impl Life {
    pub fn new(entry: &Entry, due: Timestamp, payload: u64, attempts: u16) -> Self {
        Self {
            pushed: payload,
            was_updated: false,
            lease: None,
            is_dead: false,
            payload,
            attempts: u32::from(attempts),
            due,
            known_at_us: entry.at_us,
            known_us: entry.store_us,
            tries: 0,
            is_haunted: false,
            is_over: false,
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

    pub fn is_at_rest(&self) -> bool {
        self.is_over || self.is_dead
    }

    pub fn owes_record(&self) -> bool {
        self.owed.is_some()
    }

    /// Since when it waits to be started again after its node died.
    pub fn waits_since(&self) -> Option<u64> {
        self.orphaned_us.filter(|_| !self.is_at_rest())
    }

    pub fn orphaned(&mut self, at_us: u64) {
        self.orphaned_us.get_or_insert(at_us);
    }

    pub fn node_died(&mut self, node: NodeId, at_us: u64) {
        self.running.retain(|token| token.node != node);
        if self.lease.is_some_and(|token| token.node == node) {
            self.orphaned(at_us);
        }
    }

    pub fn read(&mut self, entry: &Entry, expect: &Expect) -> Verdict {
        match entry.what {
            What::CancelApplied(truth) => self.cancelled(truth),
            What::Replaced if self.lease.is_some() => broken("I3: a leased event was replaced"),
            What::Replaced => {
                self.is_cancelled = true;
                Ok(())
            }
            What::CancelAnswered(truth) => {
                self.is_cancel_told |= truth == Truth::Done;
                match truth {
                    Truth::Done if self.is_haunted => {
                        broken("I3: a client is told done, and a lost lease may still run")
                    }
                    Truth::Done if !self.running.is_empty() => {
                        broken("I3: a cancel is called done while a handler runs")
                    }
                    _ => Ok(()),
                }
            }
            What::Rescheduled { truth, due } => self.changed(truth, |life| {
                life.due = due;
                life.due_is_known(entry);
            }),
            What::Updated { truth, payload } => self.changed(truth, |life| {
                life.payload = payload;
                life.was_updated = true;
            }),
            What::Leased {
                token,
                attempt,
                due,
                payload,
            } => self.leased(entry, expect, token, attempt, due, payload),
            What::Started {
                token,
                due,
                payload,
            } => self.started(entry, expect, token, due, payload),
            What::Ended {
                token,
                ending,
                delay_us,
            } => {
                self.running.remove(&token);
                self.ended.insert(token, (ending, delay_us));
                Ok(())
            }
            What::Settled {
                token,
                ending,
                accepted,
            } => self.settled(entry, token, ending, accepted),
            What::Recorded {
                node,
                attempt,
                outcome,
            } => {
                self.due_is_known(entry);
                self.recorded(expect, node, attempt, outcome)
            }
            What::Buried => {
                self.is_dead = true;
                self.orphaned_us = None;
                Ok(())
            }
            What::Revived => {
                self.is_dead = false;
                self.tries = 0;
                self.revivals += 1;
                self.due = Timestamp::EPOCH;
                self.due_is_known(entry);
                Ok(())
            }
            What::Removed => {
                self.is_over = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// From here on its lateness counts, and its wait.
    pub fn due_is_known(&mut self, entry: &Entry) {
        (self.known_at_us, self.known_us) = (entry.at_us, entry.store_us);
    }

    fn cancelled(&mut self, truth: Truth) -> Verdict {
        match truth {
            Truth::Done | Truth::DoneAfterAttempt if self.lease.is_some() => {
                broken("I3: a leased event was cancelled")
            }
            Truth::Done if self.is_haunted => {
                broken("I3: a cancel is called done, and a holder believed dead may still run it")
            }
            Truth::DoneAfterAttempt if !self.is_haunted => {
                broken("I3: a cancel speaks of a lost lease, and none was lost")
            }
            Truth::Done | Truth::DoneAfterAttempt => {
                self.is_cancelled = true;
                Ok(())
            }
            Truth::TooLate(State::Leased) if self.lease.is_none() => {
                broken("I3: too late, says a cancel, and nobody holds the event")
            }
            Truth::TooLate(State::Dead) if !self.is_dead => broken("I3: too late, but not dead"),
            Truth::TooLate(state) if state.is_final() != self.is_over => {
                broken("I3: a cancel names a state that the event is not in")
            }
            _ => Ok(()),
        }
    }

    fn changed(&mut self, truth: Truth, change: impl FnOnce(&mut Self)) -> Verdict {
        match truth {
            Truth::Done | Truth::DoneAfterAttempt if self.lease.is_some() || self.is_over => {
                broken("I3: an event was changed while it was leased or after its end")
            }
            Truth::Done if self.is_haunted => {
                broken("I3: a change is called done, and a holder believed dead may still run it")
            }
            Truth::Done | Truth::DoneAfterAttempt => {
                change(self);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
