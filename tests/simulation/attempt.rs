//! What each lease, start, settle and record says about an event, and what it must not say.

use duly::record::{NodeId, Outcome};
use duly::time::Timestamp;

use crate::checker::Expect;
use crate::history::{Ending, Entry, Token};
use crate::life::{Life, Verdict, broken};

impl Life {
    pub fn leased(
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

    pub fn started(
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

    pub fn settled(
        &mut self,
        entry: &Entry,
        token: Token,
        ending: Ending,
        accepted: bool,
    ) -> Verdict {
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

    pub fn recorded(
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
