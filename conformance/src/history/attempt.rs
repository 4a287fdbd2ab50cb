//! The rules for each lease, start, settle and record of an event.

use super::entry::{AttemptEnd, Entry};
use super::event_history::EventHistory;
use super::expect::Expect;
use super::promise::{Checked, Promise, broken};
use duly::records::{NodeId, Outcome};
use duly::store::operation::Lease;
use duly::time::Timestamp;

impl EventHistory {
    pub(super) fn leased(
        &mut self,
        entry: &Entry,
        expect: &Expect,
        lease: Lease,
        attempt: u16,
        due: Timestamp,
        payload: u64,
    ) -> Checked {
        if self.lease == Some(lease) {
            return Ok(()); // the repeat of a fetch
        }
        if self.lease.is_some() {
            return broken(Promise::LostWorkers, "an event had two leases at once");
        }
        if self.is_over || self.is_dead || self.is_cancelled {
            return broken(Promise::Truth, "an event was leased after its end");
        }
        if self.closed.contains(&lease) {
            return broken(Promise::LostWorkers, "an ended lease was granted again");
        }
        if u32::from(attempt) != self.tries + 1 || u32::from(attempt) > self.attempts {
            return broken(Promise::Attempts, "the attempt has the wrong number");
        }
        if due.as_micros() > entry.store_us.saturating_add(expect.ahead_us) {
            return broken(Promise::NeverEarly, "an event was leased too far ahead");
        }
        if due < self.due {
            return broken(
                Promise::NeverEarly,
                "an event has an earlier due time than it was set",
            );
        }
        if payload != self.payload {
            return broken(
                Promise::Truth,
                "an update was confirmed, and another payload is delivered",
            );
        }
        (self.lease, self.until) = (Some(lease), None);
        Ok(())
    }

    pub(super) fn started(
        &mut self,
        entry: &Entry,
        expect: &Expect,
        lease: Lease,
        due: Timestamp,
        payload: u64,
    ) -> Checked {
        self.starts += 1;
        self.orphaned_us = None;
        if due.as_micros() > entry.store_us.saturating_add(expect.early_us_max) {
            return broken(Promise::NeverEarly, "a handler started early");
        }
        if self.is_cancelled || self.is_cancel_told {
            return broken(Promise::Truth, "a handler started after a cancel");
        }
        if !self.started.insert(lease) {
            return broken(Promise::LostWorkers, "two handlers started under one lease");
        }
        if self.lease != Some(lease) {
            return broken(
                Promise::LostWorkers,
                "a handler started on a lease that has ended",
            );
        }
        if !self
            .running
            .iter()
            .all(|running| self.lost.contains(running))
        {
            return broken(
                Promise::LostWorkers,
                "two handlers run at once, and no lost lease explains it",
            );
        }
        if u64::from(self.starts)
            > u64::from(self.attempts) * u64::from(1 + self.revivals) + u64::from(self.snoozes)
        {
            return broken(Promise::Attempts, "more starts than attempts");
        }
        if payload != self.payload {
            return broken(
                Promise::Truth,
                "an update was confirmed, and a handler sees another payload",
            );
        }
        let from_us = due.as_micros().max(self.known_us);
        let late_us = entry.store_us.saturating_sub(from_us);
        let counts = from_us >= expect.late_counts_from_us;
        if counts && expect.late_us_max.is_some_and(|most| late_us > most) {
            return if !expect.is_clogged {
                broken(Promise::Accepted, "a handler started late without a reason")
            } else {
                broken(
                    Promise::Apart,
                    "a handler started late because of another queue",
                )
            };
        }
        self.running.insert(lease);
        Ok(())
    }

    pub(super) fn settled(
        &mut self,
        entry: &Entry,
        lease: Lease,
        ending: AttemptEnd,
        accepted: bool,
    ) -> Checked {
        if !accepted {
            return if self.lease == Some(lease) {
                broken(Promise::LostWorkers, "the holder of a lease was refused")
            } else {
                Ok(())
            };
        }
        if self.lease != Some(lease) {
            return if self.last_settled == Some((lease, ending)) {
                Ok(())
            } else {
                broken(
                    Promise::LostWorkers,
                    "a settle was accepted without a lease",
                )
            };
        }
        let started = self.started.contains(&lease);
        // A node hands prefetched events back without consulting the store.
        let unseen = (!started && ending == AttemptEnd::Release).then_some((ending, 0));
        let Some((ran, delay_us)) = self.ended.get(&lease).copied().or(unseen) else {
            return broken(Promise::Records, "an attempt was settled before it ended");
        };
        if ran != ending {
            return broken(
                Promise::Records,
                "an attempt was settled with another outcome than it had",
            );
        }
        if started == matches!(ending, AttemptEnd::Release | AttemptEnd::Expire) {
            return broken(
                Promise::Attempts,
                "an unstarted lease was settled as an attempt, or the reverse",
            );
        }
        self.lease = None;
        self.due_is_known(entry);
        self.closed.insert(lease);
        self.last_settled = Some((lease, ending));
        match ending {
            AttemptEnd::Retry | AttemptEnd::Bury => self.tries += 1,
            AttemptEnd::Snooze => self.snoozes += 1,
            // Whether an interruption counts, its record says.
            AttemptEnd::Interrupt
            | AttemptEnd::Ack
            | AttemptEnd::Discard
            | AttemptEnd::Expire
            | AttemptEnd::Release => {}
        }
        if matches!(
            ending,
            AttemptEnd::Retry | AttemptEnd::Snooze | AttemptEnd::Interrupt
        ) {
            self.due = Timestamp::from_millis(entry.store_us.saturating_add(delay_us) / 1_000);
        }
        self.owed = (ending != AttemptEnd::Release).then_some(ending);
        Ok(())
    }

    pub(super) fn handed_back(&mut self, entry: &Entry, expect: &Expect, lease: Lease) -> Checked {
        if self.lease.take() != Some(lease) || self.until.is_some() || expect.leases_stand {
            return broken(
                Promise::LostWorkers,
                "a lease was taken back without a reason",
            );
        }
        if self.started.contains(&lease) {
            return broken(
                Promise::Attempts,
                "a handler had started, but its attempt does not count",
            );
        }
        self.closed.insert(lease);
        self.due_is_known(entry);
        Ok(())
    }

    pub(super) fn recorded(
        &mut self,
        entry: &Entry,
        expect: &Expect,
        node: NodeId,
        attempt: u16,
        outcome: Outcome,
    ) -> Checked {
        if outcome == Outcome::LeaseLost {
            let Some(lease) = self.lease.take().filter(|lease| lease.node == node) else {
                return broken(
                    Promise::Records,
                    "a lost lease is on record, but none was lost",
                );
            };
            let until = self.until.unwrap_or(Timestamp::EPOCH);
            if entry.store_us < until.as_micros() {
                return broken(
                    Promise::LostWorkers,
                    "a lease was taken back before its own deadline",
                );
            }
            if expect.leases_stand {
                return broken(Promise::LostWorkers, "a lease was lost without a reason");
            }
            self.lost.insert(lease);
            self.closed.insert(lease);
            self.may_still_run = true;
            self.tries += 1;
            return if u32::from(attempt) == self.tries {
                Ok(())
            } else {
                broken(
                    Promise::Attempts,
                    "the record of a lost lease has the wrong attempt",
                )
            };
        }
        let owed = self.owed.take();
        if owed == Some(AttemptEnd::Interrupt) {
            match outcome {
                Outcome::Interrupted => self.snoozes += 1, // it is as free
                _ => self.tries += 1,
            }
        }
        let fits = match (owed, outcome) {
            (None, Outcome::Cancelled) => self.is_cancelled,
            (
                None,
                Outcome::Expired
                | Outcome::Buried
                | Outcome::Revived
                | Outcome::Edited
                | Outcome::Dropped,
            ) => self.lease.is_none(),
            (Some(AttemptEnd::Ack), Outcome::Acked)
            | (Some(AttemptEnd::Retry), Outcome::Retried | Outcome::Buried)
            | (Some(AttemptEnd::Snooze), Outcome::Snoozed)
            | (
                Some(AttemptEnd::Interrupt),
                Outcome::Interrupted | Outcome::Retried | Outcome::Buried,
            )
            | (Some(AttemptEnd::Bury), Outcome::Buried)
            | (Some(AttemptEnd::Discard), Outcome::Discarded)
            | (Some(AttemptEnd::Expire), Outcome::Expired) => true,
            _ => false,
        };
        if !fits {
            return broken(Promise::Records, "a record does not match its attempt");
        }
        let in_this_life = self.starts.saturating_sub(self.snoozes);
        let counts = matches!(outcome, Outcome::Acked | Outcome::Retried) && self.revivals == 0;
        if expect.exact && counts && u32::from(attempt) != in_this_life {
            return broken(
                Promise::Attempts,
                "attempts and starts differ, and there was no fault",
            );
        }
        Ok(())
    }
}
