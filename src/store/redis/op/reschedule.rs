//! Changes the due time of an event.

use crate::core::op::Reply;
use crate::error::Result;
use crate::event::{EventId, QueueName};
use crate::store::redis::op::admit::checked;
use crate::store::redis::op::page;
use crate::store::redis::op::reply::{DecodedReply, changed};
use crate::store::redis::script::call::{Call, CallContext, delay_max_ms};
use crate::store::redis::script::reader::{ReplyReader, unreadable};
use crate::store::redis::script::table::script;
use crate::time::When;

script! {
    /// Changes the due time of an event.
    RESCHEDULE = "reschedule", FILLS, Bucket,
        ["bucket", "state", "page", "sweep", "waiting", "unreaped", "unexpired"];
    RescheduleArguments<'a> {
        /// The calling process, which is not notified.
        origin: &'a str,
        /// The furthest due time from now, ms.
        delay_max: u128,
        id: EventId,
        /// "n" now, "a" and us from now, "t" and ms since the epoch.
        when: String,
    }
    reply RescheduleReply {
        now: u64,
        earlier: bool,
        /// "changed" or "after" (an attempt may still run), or the kind of its state when it is too
        /// late, or "" for an unknown id.
        change: Vec<u8>,
        due: u64,
    }
}

pub(super) fn call(context: &CallContext<'_>, (id, when): (EventId, When)) -> Result<Call> {
    checked(when)?;
    Ok(context.call(RescheduleArguments {
        origin: &context.origin,
        delay_max: delay_max_ms(),
        id,
        when: page::when(when),
    }))
}

pub(super) fn read(
    _: &QueueName,
    mut parts: ReplyReader,
    _: (EventId, When),
) -> Result<DecodedReply> {
    let reply = RescheduleReply::read(&mut parts)?;
    let change = changed(&reply.change, reply.due)?;
    let change = change.ok_or_else(|| unreadable("reschedule"))?;
    Ok(DecodedReply {
        is_earlier: reply.earlier,
        ..DecodedReply::new(reply.now, Reply::Rescheduled(change))
    })
}
