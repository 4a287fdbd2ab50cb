//! Reads a page of the events that have not ended: of all, or of those with a key.

use crate::core::op::{BATCH_MAX, PeekBy, PeekCursor, PeekPage, Reply};
use crate::error::Result;
use crate::event::QueueName;
use crate::store::redis::op::reply::{DecodedReply, page};
use crate::store::redis::script::call::{Call, CallContext};
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::table::script;

script! {
    /// Reads the events that have not ended, page by page.
    PEEK = "peek", DRAINS, Bucket, ["bucket", "state", "page", "bytes", "look_up", "unreaped", "unexpired"];
    PeekArguments<'a> {
        /// The cursor of the last page, or "" for the first.
        cursor: &'a [u8],
        /// About how many, at most 1000.
        limit: usize,
    }
    reply PeekReply {
        now: u64,
        /// The cursor of the next page. Then for each event its id and the fields of `look_up`.
        next: Option<Vec<u8>>,
    }
}

script! {
    /// Reads events by key, ordered by id, or the one with a unique key.
    FIND = "find", DRAINS, Bucket,
        ["bucket", "state", "page", "bytes", "body", "look_up", "unreaped", "unexpired"];
    FindArguments<'a> {
        /// "k" key, "u" unique key.
        by: &'a str,
        name: &'a str,
        /// The id after which to begin, or "".
        after: &'a [u8],
        /// At most 1000.
        limit: usize,
    }
    reply FindReply {
        now: u64,
        /// The last id, where there are more. Then as of a page.
        next: Option<Vec<u8>>,
    }
}

type Request<'a> = (&'a PeekBy, Option<&'a PeekCursor>, usize);

pub(super) fn call(context: &CallContext<'_>, (by, from, limit): Request<'_>) -> Result<Call> {
    let (after, limit) = (
        from.map_or(&[][..], PeekCursor::as_bytes),
        limit.clamp(1, BATCH_MAX),
    );
    let (by, name) = match by {
        PeekBy::All => {
            let cursor = after;
            return Ok(context.call(PeekArguments { cursor, limit }));
        }
        PeekBy::Key(key) => ("k", key),
        PeekBy::Unique(key) => ("u", key),
    };
    Ok(context.call(FindArguments {
        by,
        name,
        after,
        limit,
    }))
}

pub(super) fn read(
    queue: &QueueName,
    mut parts: ReplyReader,
    _: Request<'_>,
) -> Result<DecodedReply> {
    let reply = PeekReply::read(&mut parts)?;
    let mut events = page(queue, parts)?;
    events.retain(|event| !event.state.is_final());
    let next = reply.next.map(PeekCursor::new);
    let peeked = Reply::Peeked(PeekPage { events, next });
    Ok(DecodedReply::new(reply.now, peeked))
}
