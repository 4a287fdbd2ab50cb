//! Metrics of the store calls that the mover makes.

use std::sync::Arc;

use crate::core::op::{Answer, Reply, StoreOp, Verdict};
use crate::error::Result;
use crate::metrics::{Moves, Settled};

/// What the result of one call will count for.
pub(crate) struct Tally {
    moves: Arc<Moves>,
    /// The settlements of the call.
    settled: Vec<Settled>,
}

impl Tally {
    /// Prepares to count the call `op` in the queue's `moves`.
    pub(crate) fn of(moves: &Arc<Moves>, op: &StoreOp) -> Self {
        let settled = match op {
            StoreOp::Settle { settlements, .. } => settlements
                .iter()
                .map(|settlement| settled(&settlement.verdict))
                .collect(),
            _ => Vec::new(),
        };
        Self {
            moves: Arc::clone(moves),
            settled,
        }
    }

    /// Counts a result. A call without a result is not counted: it is repeated, and then counted
    /// for both.
    pub(crate) fn count(self, answer: &Result<Answer>) {
        match answer.as_ref().map(|answer| &answer.reply) {
            Ok(Reply::Moved { moved, .. }) => self.moves.moved(*moved),
            Ok(Reply::Reaped(reaped)) => self.moves.reaped(reaped.ready + reaped.dead),
            Ok(Reply::Settled(accepted)) => {
                let batch = self.settled.into_iter().zip(accepted.iter().copied());
                self.moves.settled(batch);
            }
            _ => {}
        }
    }
}

fn settled(verdict: &Verdict) -> Settled {
    match verdict {
        Verdict::Ack => Settled::Acked,
        Verdict::Retry(..) => Settled::Retried,
        Verdict::Snooze(_) => Settled::Snoozed,
        Verdict::Bury(_) => Settled::Buried,
        Verdict::Discard(_) => Settled::Discarded,
        Verdict::Expire => Settled::Expired,
        Verdict::Release => Settled::Released,
    }
}
