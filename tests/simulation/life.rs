//! One event, as its history tells it.

use std::collections::{BTreeMap, BTreeSet};

use duly::event::State;
use duly::record::{NodeId, Outcome};
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
    payload: u64,
    attempts: u32,
    due: Timestamp,
    /// Since when it is known to be due then, in true time and in the store's.
    pub known_at_us: u64,
    known_us: u64,
    /// Attempts that count.
    tries: u32,
    /// A lease was lost once.
    is_haunted: bool,
    is_over: bool,
    /// A cancel was applied, and nobody may start any more.
    is_cancelled: bool,
    /// A client was told so.
    is_cancel_told: bool,
    starts: u32,
    snoozes: u32,
    revivals: u32,
    /// Leases under which a handler has started.
    started: BTreeSet<Token>,
    running: BTreeSet<Token>,
    lost: BTreeSet<Token>,
    /// Leases that are over, however they ended.
    closed: BTreeSet<Token>,
    /// How each attempt ended where it ran, and until when it wanted to rest.
    ended: BTreeMap<Token, (Ending, u64)>,
    last_settled: Option<(Token, Ending)>,
    owed: Option<Ending>,
    orphaned_us: Option<u64>,
}

type Verdict = Result<(), String>;

fn broken(text: &str) -> Verdict {
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
    fn due_is_known(&mut self, entry: &Entry) {
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

    fn leased(
        &mut self,
        entry: &Entry,
        expect: &Expect,
        token: Token,
        attempt: u16,
        due: Timestamp,
        payload: u64,
    ) -> Verdict {
        if self.lease == Some(token) {
            return Ok(()); // the repeat of a fetch
        }
        if self.lease.is_some() {
            return broken("I7: an event was leased to two at once");
        }
        if self.is_over || self.is_dead || self.is_cancelled {
            return broken("I3: an event was leased after its end");
        }
        if self.closed.contains(&token) {
            return broken("I7: a lease was given out again under an old token");
        }
        if u32::from(attempt) != self.tries + 1 || u32::from(attempt) > self.attempts {
            return broken("I4: the attempt has the wrong number");
        }
        if due.as_micros() > entry.store_us + expect.ahead_us {
            return broken("I2: an event was leased too far ahead");
        }
        if due < self.due {
            return broken("I2: an event has an earlier due time than it was given");
        }
        if payload != self.payload {
            return broken("an update was confirmed, and another payload is delivered");
        }
        self.lease = Some(token);
        Ok(())
    }

    fn started(
        &mut self,
        entry: &Entry,
        expect: &Expect,
        token: Token,
        due: Timestamp,
        payload: u64,
    ) -> Verdict {
        self.starts += 1;
        self.orphaned_us = None;
        if due.as_micros() > entry.store_us + expect.early_us_max {
            return broken("I2: a handler started early");
        }
        if self.is_cancelled || self.is_cancel_told {
            return broken("I3: a handler started after a cancel");
        }
        if !self.started.insert(token) {
            return broken("I8: two handlers started under one lease");
        }
        if self.lease != Some(token) {
            return broken("I8: a handler started on a lease that is over");
        }
        if !self
            .running
            .iter()
            .all(|running| self.lost.contains(running))
        {
            return broken("I8: two handlers run at once, and no lost lease explains it");
        }
        if self.starts > self.attempts * (1 + self.revivals) + self.snoozes {
            return broken("I4: more starts than attempts");
        }
        if payload != self.payload {
            return broken("an update was confirmed, and a handler sees another payload");
        }
        let from_us = due.as_micros().max(self.known_us);
        let late_us = entry.store_us.saturating_sub(from_us);
        let counts = from_us >= expect.late_counts_from_us;
        if counts && expect.late_us_max.is_some_and(|most| late_us > most) {
            return broken("I16: a handler started late, and nothing excuses it");
        }
        self.running.insert(token);
        Ok(())
    }

    fn settled(&mut self, entry: &Entry, token: Token, ending: Ending, accepted: bool) -> Verdict {
        if !accepted {
            return match self.lease == Some(token) {
                true => broken("I7: the holder of a lease was refused"),
                false => Ok(()),
            };
        }
        if self.lease != Some(token) {
            return match self.last_settled == Some((token, ending)) {
                true => Ok(()), // its repeat
                false => broken("I7: a settle was accepted without a lease"),
            };
        }
        let started = self.started.contains(&token);
        // What a node still holds it hands back without asking anybody.
        let unseen = (!started && ending == Ending::Release).then_some((ending, 0));
        let Some((ran, delay_us)) = self.ended.get(&token).copied().or(unseen) else {
            return broken("I5: an attempt was settled before it ended");
        };
        if ran != ending {
            return broken("I5: an attempt was settled as something that it was not");
        }
        if started == matches!(ending, Ending::Release | Ending::Expire) {
            return broken("I4: what never started was settled as an attempt, or the reverse");
        }
        self.lease = None;
        self.due_is_known(entry);
        self.closed.insert(token);
        self.last_settled = Some((token, ending));
        match ending {
            Ending::Retry | Ending::Bury => self.tries += 1,
            Ending::Snooze => self.snoozes += 1,
            Ending::Ack | Ending::Discard | Ending::Expire | Ending::Release => {}
        }
        if matches!(ending, Ending::Retry | Ending::Snooze) {
            self.due = Timestamp::from_millis((entry.store_us + delay_us) / 1_000);
        }
        self.owed = (ending != Ending::Release).then_some(ending);
        Ok(())
    }

    fn recorded(
        &mut self,
        expect: &Expect,
        node: NodeId,
        attempt: u16,
        outcome: Outcome,
    ) -> Verdict {
        if outcome == Outcome::LeaseLost {
            let Some(token) = self.lease.take().filter(|token| token.node == node) else {
                return broken("I5: a lost lease is on record, and there was none");
            };
            if expect.leases_stand {
                return broken("I8: a lease was lost, and nothing explains it");
            }
            self.lost.insert(token);
            self.closed.insert(token);
            self.is_haunted = true;
            self.tries += 1;
            return match u32::from(attempt) == self.tries {
                true => Ok(()),
                false => broken("I4: the record of a lost lease has the wrong attempt"),
            };
        }
        let fits = match (self.owed.take(), outcome) {
            (None, Outcome::Cancelled) => self.is_cancelled,
            (None, Outcome::Expired | Outcome::Discarded | Outcome::Buried) => self.lease.is_none(),
            (Some(Ending::Ack), Outcome::Acked)
            | (Some(Ending::Retry), Outcome::Retried | Outcome::Buried)
            | (Some(Ending::Snooze), Outcome::Snoozed)
            | (Some(Ending::Bury), Outcome::Buried)
            | (Some(Ending::Discard), Outcome::Discarded)
            | (Some(Ending::Expire), Outcome::Expired) => true,
            _ => false,
        };
        if !fits {
            return broken("I5: a record does not fit what happened");
        }
        let in_this_life = self.starts - self.snoozes;
        let counts = matches!(outcome, Outcome::Acked | Outcome::Retried) && self.revivals == 0;
        if expect.exact && counts && u32::from(attempt) != in_this_life {
            return broken("I4: attempts and starts differ, and there was no fault");
        }
        Ok(())
    }
}
