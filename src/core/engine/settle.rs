//! Settle: ends leases with the outcome of their attempts.

use std::time::Duration;

use crate::core::engine::bucket::Bucket;
use crate::core::engine::entry::{Place, RecordDetails};
use crate::core::engine::leases::Lease;
use crate::core::engine::limits::bounded;
use crate::core::op::LastSettlement;
use crate::core::op::{
    AttemptOutcome, ChangeSink, FREE_INTERRUPTIONS_MAX, FailureReason, Settlement, StartMark,
};
use crate::error::Result;
use crate::event::{EventId, State};
use crate::record::{Cause, NodeId, Outcome, Stages};
use crate::time::{DELAY_MAX, Timestamp, When};

impl<B: Clone> Bucket<B> {
    pub(super) fn settle<L: ChangeSink<Body = B>>(
        &mut self,
        node: NodeId,
        settlements: Vec<Settlement>,
        started: StartMark,
        sink: &mut L,
    ) -> Result<Vec<bool>> {
        bounded("settlements", settlements.len())?;
        self.nodes.announce(node, started);
        let releases = settlements.iter();
        let releases = releases.filter(|settlement| settlement.verdict == AttemptOutcome::Release);
        // Released events keep their order, so they take positions from the front.
        let mut front = self.waiting.make_room(releases.count());
        let accepted = settlements.into_iter().map(|settlement| {
            let settled = LastSettlement::new(node, &settlement);
            let Some(entry) = self.entries.get_mut(&settlement.id) else {
                let dedup = self.dedup.get(settlement.id);
                return dedup.is_some_and(|dedup| dedup.settled == Some(settled));
            };
            if self.leases.under(entry, node, settlement.request).is_none() {
                return entry.settled() == Some(settled);
            }
            let Some(lease) = self.leases.remove(entry) else {
                return false;
            };
            self.nodes.end(settlement.id, &lease);
            if settlement.verdict == AttemptOutcome::Release {
                entry.settle(settled);
                self.release(settlement.id, &lease, &mut front);
            } else {
                self.conclude(&lease, settlement, settled, sink);
            }
            true
        });
        Ok(accepted.collect())
    }

    /// Hands back an event whose handler never started. A prefetched one waits on for its due time.
    pub(super) fn release(&mut self, id: EventId, lease: &Lease, front: &mut i64) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let place = if entry.due.as_micros() > self.now_us {
            self.waiting.schedule(id, entry.due);
            Place::Scheduled
        } else {
            self.waiting.put(*front, id, lease.moved_us);
            Place::Ready(*front)
        };
        *front += 1;
        entry.go(place);
        self.expiring.add(id, entry);
    }

    /// Ends an attempt with any outcome but a release, with its record.
    fn conclude<L: ChangeSink<Body = B>>(
        &mut self,
        lease: &Lease,
        settlement: Settlement,
        settled: LastSettlement,
        sink: &mut L,
    ) {
        let Settlement {
            id,
            request: _,
            verdict,
            started_us,
            fetched_us,
        } = settlement;
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let tries = entry.tries.saturating_add(1);
        let last = tries >= entry.attempts;
        let interruptions = entry.used().interruptions;
        let is_free = match verdict {
            AttemptOutcome::Interrupt { free } => interruptions < free.min(FREE_INTERRUPTIONS_MAX),
            _ => false,
        };
        match verdict {
            AttemptOutcome::Interrupt { .. } if is_free => {
                entry.set_interruptions(interruptions + 1);
            }
            AttemptOutcome::Interrupt { .. } => {} // the next ones count, too
            _ => entry.set_interruptions(0),
        }
        let ending = |outcome| RecordDetails {
            outcome,
            cause: None,
            attempt: tries,
            node: lease.node,
            stages: Stages {
                moved_us: lease.moved_us,
                fetched_us,
                started_us,
                finished_us: self.now_us,
            },
            error: None,
            by: None,
            settled: Some(settled),
        };
        let failing = |outcome, failing: FailureReason| RecordDetails {
            cause: Some(failing.cause),
            error: failing.error,
            ..ending(outcome)
        };
        let interrupted = || FailureReason {
            cause: Cause::Interrupted,
            error: None,
        };
        // Beyond the free ones an interruption is a failure.
        let verdict = match verdict {
            AttemptOutcome::Interrupt { .. } if !is_free => {
                AttemptOutcome::Retry(Duration::ZERO, interrupted())
            }
            verdict => verdict,
        };
        match verdict {
            AttemptOutcome::Interrupt { .. } => {
                let ending = failing(Outcome::Interrupted, interrupted());
                self.again(id, Duration::ZERO, tries - 1, ending, sink);
            }
            AttemptOutcome::Ack => self.finish(id, State::Done, ending(Outcome::Acked), sink),
            AttemptOutcome::Discard(error) => {
                let ending = RecordDetails {
                    error,
                    ..ending(Outcome::Discarded)
                };
                self.finish(id, State::Discarded, ending, sink);
            }
            AttemptOutcome::Expire => {
                let ending = RecordDetails {
                    attempt: 0,
                    ..ending(Outcome::Expired)
                };
                self.finish(id, State::Expired, ending, sink);
            }
            AttemptOutcome::Retry(delay, why) if !last => {
                let ending = failing(Outcome::Retried, why);
                self.again(id, delay, tries, ending, sink);
            }
            AttemptOutcome::Bury(why) if why.cause == Cause::TooLate => {
                let ending = RecordDetails {
                    attempt: 0, // none had begun
                    ..failing(Outcome::Buried, why)
                };
                self.bury(id, tries - 1, ending, sink);
            }
            AttemptOutcome::Retry(_, why) | AttemptOutcome::Bury(why) => {
                self.bury(id, tries, failing(Outcome::Buried, why), sink);
            }
            AttemptOutcome::Snooze(delay) => {
                let ending = ending(Outcome::Snoozed);
                self.again(id, delay, tries - 1, ending, sink);
            }
            AttemptOutcome::Release => {}
        }
    }

    /// Schedules the event once more, with `tries` attempts used up.
    fn again<L: ChangeSink<Body = B>>(
        &mut self,
        id: EventId,
        delay: Duration,
        tries: u16,
        ending: RecordDetails,
        sink: &mut L,
    ) {
        let due: Timestamp = When::from(delay.min(DELAY_MAX)).due(self.now_us);
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if let Some(settled) = ending.settled {
            entry.settle(settled);
        }
        entry.record(id, &self.key.queue, ending, sink);
        entry.due = due;
        entry.tries = tries;
        let place = Self::wait(&mut self.waiting, self.now_us, id, due);
        entry.go(place);
        self.expiring.add(id, entry);
        sink.changed(id, &entry.body, due, entry.used());
    }
}
