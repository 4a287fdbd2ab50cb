//! Reads dead events, ordered by id.

use crate::core::op::{BATCH_MAX, DeadPage, Reply};
use crate::error::Result;
use crate::event::{EventId, QueueName, State};
use crate::store::redis::op::reply::{DecodedReply, page};
use crate::store::redis::script::call::{Call, CallContext};
use crate::store::redis::script::reader::{ReplyReader, id_of};
use crate::store::redis::script::table::script;

script! {
    /// Reads dead events.
    READ_DEAD = "read_dead", DRAINS, Bucket,
        ["bucket", "state", "page", "bytes", "look_up", "unreaped", "unexpired"];
    ReadDeadArguments {
        /// The id after which to begin.
        after: Option<EventId>,
        /// At most 1000.
        limit: usize,
    }
    reply ReadDeadReply {
        now: u64,
        /// The id after which there are more. Then for each event its id and the fields of `look_up`.
        next: Option<Vec<u8>>,
    }
}

pub(super) fn call(
    context: &CallContext<'_>,
    (after, limit): (Option<EventId>, usize),
) -> Result<Call> {
    let limit = limit.clamp(1, BATCH_MAX);
    Ok(context.call(ReadDeadArguments { after, limit }))
}

pub(super) fn read(
    queue: &QueueName,
    mut parts: ReplyReader,
    _: (Option<EventId>, usize),
) -> Result<DecodedReply> {
    let reply = ReadDeadReply::read(&mut parts)?;
    let mut letters = page(queue, parts)?;
    letters.retain(|letter| letter.state == State::Dead);
    let next = reply.next.and_then(|next| id_of(&next));
    let page = Reply::Dead(DeadPage { letters, next });
    Ok(DecodedReply::new(reply.now, page))
}
