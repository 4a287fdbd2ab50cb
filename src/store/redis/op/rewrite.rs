//! Re-encodes events without changing their values.

use crate::codec::body;
use crate::core::engine::{bounded, check_bytes};
use crate::core::op::{Reply, Response, Rewriting};
use crate::error::Result;
use crate::event::{BucketKey, EventId};
use crate::store::redis::op::look::look;
use crate::store::redis::op::shared::Shared;
use crate::store::redis::script::call::CallContext;
use crate::store::redis::script::reader::unreadable;
use crate::store::redis::script::table::script;

script! {
    /// Replaces bodies by re-encoded ones.
    REWRITE = "rewrite", FILLS, Bucket, ["bucket", "state", "page", "bytes", "unreaped", "unexpired"];
    RewriteArguments {}
    each Rewritten<'a> {
        /// At most as many as one call of `look` reads.
        id: EventId,
        /// The first bytes of the body that was read.
        read: &'a [u8],
        /// The new body.
        new: &'a [u8],
    }
    reply RewriteReply {
        now: u64,
        /// How many were replaced.
        changed: usize,
        /// How many it has looked at: not all where too many others leave their pages.
        looked: usize,
    }
}

/// Re-encodes events without changing their values.
///
/// As in an update, the bodies are built here, and the script accepts each only if the event is
/// unchanged.
pub(in crate::store::redis) async fn rewrite(
    shared: &Shared,
    bucket: &BucketKey,
    rewritings: &[Rewriting],
) -> Result<Response> {
    bounded("events", rewritings.len())?;
    check_bytes(rewritings.iter().map(|one| one.payload.len()))?;
    let (mut rest, mut rewritten, mut now_us) = (rewritings, 0, 0);
    loop {
        let (done, count, now) = rewrite_some(shared, bucket, rest).await?;
        (rewritten, now_us) = (rewritten + count, now.max(now_us));
        rest = &rest[done.min(rest.len())..];
        if rest.is_empty() {
            let reply = Reply::Counted(rewritten);
            return Ok(Response { now_us, reply });
        }
    }
}

/// Rewrites as many events as one call reads, from the first on. Returns their number, how many
/// were rewritten, and the time.
async fn rewrite_some(
    shared: &Shared,
    bucket: &BucketKey,
    rewritings: &[Rewriting],
) -> Result<(usize, usize, u64)> {
    let ids: Vec<EventId> = rewritings.iter().map(|one| one.id).collect();
    let (now_us, mut parts) = look(shared, bucket, &ids).await?;
    let (mut done, mut sent, mut rows) = (0, Vec::new(), Vec::new());
    for Rewriting { id, was, payload } in rewritings {
        if parts.is_empty() && done > 0 {
            break;
        }
        done += 1;
        let (_, bytes) = (parts.optional()?, parts.optional()?);
        let (_, _) = (parts.time()?, parts.time()?);
        let read = bytes.unwrap_or_default();
        if read.is_empty() {
            continue;
        }
        let mut envelope = body::decode(*id, &bucket.queue, &read)?;
        if envelope.fingerprint() != *was {
            continue;
        }
        envelope.payload = payload.clone();
        rows.push((*id, read, body::encode(&envelope)));
        sent.push(done);
    }
    if sent.is_empty() {
        return Ok((rewritings.len().min(done), 0, now_us));
    }
    let link = shared.links.for_pushes(bucket);
    let call = |terms: &CallContext<'_>| {
        let rows = rows.iter().map(|(id, read, new)| Rewritten {
            id: *id,
            read: &read[..read.len().min(body::HEAD_LEN)],
            new,
        });
        Ok(terms.call(RewriteArguments {}).with_rows(rows))
    };
    let mut terms = shared.terms(bucket);
    let (mut parts, _) = shared.call_unexpired(&mut terms, link, call).await?;
    let RewriteReply {
        now: now_us,
        changed: count,
        looked,
    } = RewriteReply::read(&mut parts)?;
    if looked == 0 || looked > sent.len() {
        return Err(unreadable("rewrite"));
    }
    let done = sent.get(looked).map_or(done, |next| next - 1); // it handles the first one at least
    Ok((done, count, now_us))
}
