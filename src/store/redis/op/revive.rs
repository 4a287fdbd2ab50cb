//! Revives dead events or deletes them, in as many calls as their bodies need.

use crate::core::engine::{bounded, check_by};
use crate::core::op::{Reply, Response};
use crate::error::Result;
use crate::event::{BucketKey, EventId};
use crate::store::redis::op::in_parts::part;
use crate::store::redis::op::reply::check_repeat;
use crate::store::redis::op::shared::Shared;
use crate::store::redis::script::call::CallContext;
use crate::store::redis::script::reader::{ReplyReader, unreadable};
use crate::store::redis::script::table::{Text, script};

script! {
    /// Revives dead events.
    REVIVE = "revive", DRAINS, Ending,
        ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "unreaped", "unexpired"];
    ReviveArguments<'a> {
        /// The calling process, which is not notified.
        origin: &'a str,
        /// The actor.
        by: Text<'a>,
    }
    each Revived {
        id: EventId,
    }
    reply ReviveReply {
        now: u64,
        earlier: bool,
        /// How many were revived.
        changed: usize,
        /// How many ids it has processed: not all of them where their bodies exceed the limit of one
        /// call.
        looked: usize,
    }
}

script! {
    /// Deletes dead events for good.
    DROP = "drop", DRAINS, Ending,
        ["bucket", "state", "page", "bytes", "body", "ending", "unreaped", "unexpired"];
    DropArguments<'a> {
        /// The actor.
        by: Text<'a>,
    }
    each Dropped {
        id: EventId,
    }
    reply DropReply {
        now: u64,
        /// How many were deleted, and how many ids it has processed, as of a revive.
        changed: usize,
        looked: usize,
    }
}

/// Revives or drops dead events.
pub(in crate::store::redis) async fn revive_or_drop(
    shared: &Shared,
    bucket: &BucketKey,
    ids: &[EventId],
    by: Option<&str>,
    revives: bool,
) -> Result<Response> {
    bounded("ids", ids.len())?;
    check_by(by)?;
    let (mut rest, mut count, mut now_us): (&[EventId], _, _) = (ids, 0, 0);
    loop {
        let mut terms = shared.terms(bucket);
        let call = |terms: &CallContext<'_>| {
            let (origin, by) = (&*terms.origin, Text(by));
            Ok(if revives {
                let dead = rest.iter().map(|id| Revived { id: *id });
                let call = terms.call(ReviveArguments { origin, by });
                call.with_rows(dead)
            } else {
                let dead = rest.iter().map(|id| Dropped { id: *id });
                terms.call(DropArguments { by }).with_rows(dead)
            })
        };
        let link = shared.links.for_pushes(bucket);
        let calling = shared.call_unexpired(&mut terms, link, call);
        let (parts, is_repeat) = part(calling, rest.len() < ids.len()).await?;
        let counted = read_counted(parts, rest.len(), revives)?;
        let (now, is_earlier, done, looked) = counted;
        check_repeat(is_repeat, done == looked)?;
        now_us = now.max(now_us);
        shared.learn(&terms, now);
        if is_earlier {
            shared.tell(bucket);
        }
        if done > 0 {
            shared.outboxes.tell(bucket);
        }
        (rest, count) = (&rest[looked..], count + done);
        if rest.is_empty() {
            let reply = Reply::Counted(count);
            return Ok(Response { now_us, reply });
        }
    }
}

/// Decodes the reply of a revive or drop: the time, whether there is earlier work, how many events
/// were changed, and how many of the ids were processed.
pub fn read_counted(
    mut parts: ReplyReader,
    sent: usize,
    revives: bool,
) -> Result<(u64, bool, usize, usize)> {
    let (now_us, is_earlier, done, looked) = if revives {
        let reply = ReviveReply::read(&mut parts)?;
        (reply.now, reply.earlier, reply.changed, reply.looked)
    } else {
        let reply = DropReply::read(&mut parts)?;
        (reply.now, false, reply.changed, reply.looked)
    };
    if done > looked || looked > sent || (looked == 0 && sent > 0) {
        return Err(unreadable("revive"));
    }
    Ok((now_us, is_earlier, done, looked))
}
