//! Metrics of the store calls that the mover makes.

use std::sync::Arc;

use crate::core::op::{AttemptOutcome, MoveReport, Reply, Response, StoreOp};
use crate::error::Result;
use crate::metrics::{MoverCounters, SettleKind};

/// What the result of one call will count for.
pub(crate) struct CallMetrics {
    moves: Arc<MoverCounters>,
    /// The settlements of the call.
    settled: Vec<SettleKind>,
}

impl CallMetrics {
    /// Prepares to count the call `op` in the queue's `moves`.
    pub(crate) fn of(moves: &Arc<MoverCounters>, op: &StoreOp) -> Self {
        let settled = match op {
            StoreOp::Settle { settlements, .. } => settlements
                .iter()
                .map(|settlement| settle_kind(&settlement.verdict))
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
    pub(crate) fn count(self, response: &Result<Response>) {
        match response.as_ref().map(|response| &response.reply) {
            Ok(Reply::Moved(MoveReport { moved, aside, .. })) => {
                self.moves.moved(*moved);
                self.moves.set_aside(aside.expired, aside.late);
            }
            Ok(Reply::Fetched(fetched)) => self
                .moves
                .set_aside(fetched.aside.expired, fetched.aside.late),
            Ok(Reply::Reaped(reaped)) => self.moves.reaped(reaped.ready + reaped.dead),
            Ok(Reply::Settled(accepted)) => {
                let batch = self.settled.into_iter().zip(accepted.iter().copied());
                self.moves.settled(batch);
            }
            _ => {}
        }
    }
}

/// Returns the kind of a verdict.
pub(crate) fn settle_kind(verdict: &AttemptOutcome) -> SettleKind {
    match verdict {
        AttemptOutcome::Ack => SettleKind::Acked,
        AttemptOutcome::Retry(..) => SettleKind::Retried,
        AttemptOutcome::Snooze(_) => SettleKind::Snoozed,
        AttemptOutcome::Bury(_) => SettleKind::Buried,
        AttemptOutcome::Discard(_) => SettleKind::Discarded,
        AttemptOutcome::Expire => SettleKind::Expired,
        AttemptOutcome::Release => SettleKind::Released,
        AttemptOutcome::Interrupt { .. } => SettleKind::Interrupted,
    }
}
