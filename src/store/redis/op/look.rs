//! Looks events up by id.

use crate::codec::body;
use crate::core::op::Reply;
use crate::error::Result;
use crate::event::{BucketKey, EventId, QueueName};
use crate::store::redis::op::reply::{DecodedReply, snapshot};
use crate::store::redis::op::shared::Shared;
use crate::store::redis::script::call::{Call, CallContext};
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::table::script;

script! {
    /// Looks events up.
    LOOK = "look", DRAINS, Bucket, ["bucket", "state", "page", "bytes", "look_up", "unreaped", "unexpired"];
    LookArguments {}
    each LookedUp {
        /// At most 1000.
        id: EventId,
    }
    reply LookReply {
        /// Then for each id the fields of `look_up`, as many as fit into one call.
        now: u64,
    }
}

/// Looks events up, and returns the time and their fields.
pub(super) async fn look(
    shared: &Shared,
    bucket: &BucketKey,
    ids: &[EventId],
) -> Result<(u64, ReplyReader)> {
    let call = |terms: &CallContext<'_>| Ok(call_of(terms, ids));
    let link = shared.links.for_pushes(bucket);
    let mut terms = shared.terms(bucket);
    let (mut parts, _) = shared.call_unexpired(&mut terms, link, call).await?;
    Ok((LookReply::read(&mut parts)?.now, parts))
}

fn call_of(context: &CallContext<'_>, ids: &[EventId]) -> Call {
    let rows = ids.iter().map(|id| LookedUp { id: *id });
    context.call(LookArguments {}).with_rows(rows)
}

pub(super) fn call(context: &CallContext<'_>, id: EventId) -> Result<Call> {
    Ok(call_of(context, &[id]))
}

pub(super) fn read(queue: &QueueName, mut parts: ReplyReader, id: EventId) -> Result<DecodedReply> {
    let reply = LookReply::read(&mut parts)?;
    let decode = |bytes: &[u8]| body::decode(id, queue, bytes).map(Some);
    let found = snapshot(id, &mut parts, decode)?;
    Ok(DecodedReply::new(reply.now, Reply::Snapshot(found)))
}
