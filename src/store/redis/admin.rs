//! Administrative operations that may take several calls.

use crate::codec::body;
use crate::core::op::{Answer, Changed, DeadLetterEdit, Reply, Rewriting};
use crate::core::reference::{bounded, check_by, check_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, EventId, Payload, State};
use crate::store::redis::decode::{ReplyReader, state, unreadable, updated};
use crate::store::redis::scripts;
use crate::store::redis::shared::Shared;

/// The limit of retries of an update after concurrent changes.
const RACES_MAX: usize = 16;

/// Replaces the payload of an event.
///
/// The body is read and rebuilt here, as its checksum needs the whole envelope; the script accepts
/// it only if the event is unchanged.
pub(super) async fn update(
    shared: &Shared,
    bucket: &BucketKey,
    id: EventId,
    payload: &Payload,
    by: Option<&str>,
    dead_only: bool,
) -> Result<Answer> {
    check_by(by)?;
    let keys = shared.keys(bucket);
    for _ in 0..RACES_MAX {
        let (_, mut parts) = look(shared, bucket, &[id]).await?;
        let (_, bytes) = (parts.optional()?, parts.optional()?);
        let read = bytes.unwrap_or_default();
        let new = if read.is_empty() {
            Vec::new()
        } else {
            let mut envelope = body::decode(id, &bucket.queue, &read)?;
            envelope.payload = payload.clone();
            body::encode(&envelope)
        };
        let head = &read[..read.len().min(body::HEAD_LEN)];
        let call = shared
            .terms()
            .update(&keys, id, (head, &new), by, dead_only);
        let mut parts = shared.call(shared.links.for_pushes(bucket), &call).await?;
        let now_us = parts.number()?;
        if let Some(changed) = updated(&mut parts)? {
            if parts.is_so()? {
                shared.outboxes.tell(bucket);
            }
            return Ok(Answer {
                now_us,
                reply: Reply::Updated(changed),
            });
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("event {id} was not updated, because concurrent updates came first each time"),
    ))
}

/// Replaces the payload of a dead letter that is still as it was read, and revives it, in one script.
pub(super) async fn edit_and_revive(
    shared: &Shared,
    bucket: &BucketKey,
    edit: &DeadLetterEdit,
) -> Result<Answer> {
    let id = edit.id;
    check_by(edit.by.as_deref())?;
    let (now_us, mut parts) = look(shared, bucket, &[id]).await?;
    let (kind, bytes) = (parts.optional()?, parts.optional()?);
    let answer = |now_us, changed| Answer {
        now_us,
        reply: Reply::Updated(changed),
    };
    let read = bytes.unwrap_or_default();
    let kind = kind.and_then(|kind| kind.first().copied());
    let found = match kind {
        Some(kind) => state(kind)?,
        None if read.is_empty() => return Ok(answer(now_us, Changed::NotFound)),
        None => State::Scheduled,
    };
    if found != State::Dead || read.is_empty() {
        return Ok(answer(now_us, Changed::TooLate(found)));
    }
    let mut envelope = body::decode(id, &bucket.queue, &read)?;
    if envelope.fingerprint() != edit.was {
        return Ok(answer(now_us, Changed::TooLate(State::Dead)));
    }
    envelope.payload = edit.payload.clone();
    let head = &read[..read.len().min(body::HEAD_LEN)];
    let new = body::encode(&envelope);
    let keys = shared.keys(bucket);
    let terms = shared.terms();
    let call = terms.edit_and_revive(&keys, id, (head, &new), edit.by.as_deref());
    let mut parts = shared.call(shared.links.for_pushes(bucket), &call).await?;
    let now_us = parts.number()?;
    // It changed since it was read: it is dead, and not as it was.
    let changed = updated(&mut parts)?.unwrap_or(Changed::TooLate(State::Dead));
    if parts.is_so()? {
        shared.learn(&keys, terms.mono_us, now_us);
        shared.outboxes.tell(bucket);
    }
    if parts.is_so()? {
        shared.tell(bucket);
    }
    Ok(answer(now_us, changed))
}

/// Re-encodes events without changing their values.
///
/// As in an update, the bodies are built here, and the script accepts each only if the event is
/// unchanged.
pub(super) async fn rewrite(
    shared: &Shared,
    bucket: &BucketKey,
    rewritings: &[Rewriting],
) -> Result<Answer> {
    bounded("events", rewritings.len())?;
    check_bytes(rewritings.iter().map(|one| one.payload.len()))?;
    let (mut rest, mut rewritten, mut now_us) = (rewritings, 0, 0);
    loop {
        let (done, count, now) = rewrite_some(shared, bucket, rest).await?;
        (rewritten, now_us) = (rewritten + count, now.max(now_us));
        rest = &rest[done.min(rest.len())..];
        if rest.is_empty() {
            let reply = Reply::Counted(rewritten);
            return Ok(Answer { now_us, reply });
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
    let keys = shared.keys(bucket);
    let mut call = shared.terms().call(&scripts::REWRITE, &keys);
    let (mut done, mut asked) = (0, Vec::new());
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
        let head = &read[..read.len().min(body::HEAD_LEN)];
        let new = body::encode(&envelope);
        call.command.arg(&id.to_bytes()).arg(head).arg(new);
        asked.push(done);
    }
    if asked.is_empty() {
        return Ok((rewritings.len().min(done), 0, now_us));
    }
    let link = shared.links.for_pushes(bucket);
    let mut parts = shared.call_unexpired(bucket, link, &call).await?;
    let now_us = parts.number()?;
    let (count, looked) = (parts.count()?, parts.count()?);
    if looked == 0 || looked > asked.len() {
        return Err(unreadable("rewrite"));
    }
    let done = asked.get(looked).map_or(done, |next| next - 1); // it handles the first one at least
    Ok((done, count, now_us))
}

async fn look(shared: &Shared, bucket: &BucketKey, ids: &[EventId]) -> Result<(u64, ReplyReader)> {
    let call = shared.terms().look(&shared.keys(bucket), ids);
    let link = shared.links.for_pushes(bucket);
    let mut parts = shared.call_unexpired(bucket, link, &call).await?;
    Ok((parts.number()?, parts))
}
