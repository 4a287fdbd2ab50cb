//! Cancels an event.

use crate::core::op::{CancelOutcome, Reply};
use crate::error::Result;
use crate::event::{EventId, QueueName, State};
use crate::store::redis::op::reply::{DecodedReply, state};
use crate::store::redis::script::call::{Call, CallContext};
use crate::store::redis::script::reader::{ReplyReader, unreadable};
use crate::store::redis::script::table::script;

script! {
    /// Cancels an event.
    CANCEL = "cancel", DRAINS, Ending,
        ["bucket", "state", "page", "sweep", "bytes", "body", "ending", "expiring", "unreaped"];
    CancelArguments {
        id: EventId,
    }
    reply CancelReply {
        now: u64,
        /// "cancelled" or "after" (an attempt may still run), or the kind of its state when it is too
        /// late, or "" for an unknown id.
        kind: Vec<u8>,
    }
}

pub(super) fn call(context: &CallContext<'_>, id: EventId) -> Result<Call> {
    Ok(context.call(CancelArguments { id }))
}

pub(super) fn read(_: &QueueName, mut parts: ReplyReader, _: EventId) -> Result<DecodedReply> {
    let reply = CancelReply::read(&mut parts)?;
    let cancelled = match &reply.kind[..] {
        b"cancelled" => CancelOutcome::Cancelled,
        b"after" => CancelOutcome::CancelledAfterAttempt,
        b"" => CancelOutcome::NotFound,
        [kind] => CancelOutcome::TooLate(state(*kind)?),
        _ => return Err(unreadable("cancel")),
    };
    let has_recorded = match cancelled {
        CancelOutcome::NotFound => false,
        CancelOutcome::TooLate(state) => matches!(state, State::Expired | State::Dead), // perhaps by this call
        CancelOutcome::Cancelled | CancelOutcome::CancelledAfterAttempt => true,
    };
    Ok(DecodedReply {
        has_recorded,
        ..DecodedReply::new(reply.now, Reply::Cancelled(cancelled))
    })
}
