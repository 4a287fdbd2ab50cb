//! Moves due events to the ready list.

use crate::core::op::{BATCH_MAX, MoveReport, Reply, SetAside};
use crate::error::Result;
use crate::event::QueueName;
use crate::store::redis::op::reply::DecodedReply;
use crate::store::redis::script::call::{Call, CallContext};
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::table::script;
use crate::time::Timestamp;

script! {
    /// Moves due events to the ready list.
    MOVE_DUE = "move_due", DRAINS, Bucket, ["bucket", "state", "page", "unreaped"];
    MoveDueArguments<'a> {
        /// At most 1000.
        limit: usize,
        /// The calling process, if it has no capacity: the others are notified if events are ready
        /// afterwards.
        caller: Option<&'a str>,
    }
    reply MoveDueReply {
        now: u64,
        /// If this reaches the limit, there may be more.
        moved: usize,
        ready: usize,
        /// Two more may follow, see [`set_aside`].
        next_due: Option<Timestamp>,
    }
}

pub(super) fn call(context: &CallContext<'_>, (limit, calls): (usize, bool)) -> Result<Call> {
    Ok(context.call(MoveDueArguments {
        limit: limit.min(BATCH_MAX),
        caller: calls.then_some(&*context.origin),
    }))
}

pub(super) fn read(
    _: &QueueName,
    mut parts: ReplyReader,
    _: (usize, bool),
) -> Result<DecodedReply> {
    let reply = MoveDueReply::read(&mut parts)?;
    let moved = MoveReport {
        moved: reply.moved,
        ready: reply.ready,
        next_due: reply.next_due,
        aside: set_aside(&mut parts)?,
    };
    Ok(DecodedReply::new(reply.now, Reply::Moved(moved)))
}

/// Reads what ends a reply if events were ended because they had expired or were too late.
pub(super) fn set_aside(parts: &mut ReplyReader) -> Result<SetAside> {
    if parts.is_empty() {
        return Ok(SetAside::default());
    }
    Ok(SetAside {
        expired: parts.count()?,
        late: parts.count()?,
    })
}
