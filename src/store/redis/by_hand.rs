//! Operations of an operator that may take more than one call.

use crate::core::op::{Answer, BATCH_MAX, Reply, Rewriting};
use crate::core::reference::{bounded, check_by};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, EventId, Payload, State};
use crate::store::redis::answer::{Parts, paged, updated};
use crate::store::redis::body;
use crate::store::redis::scripts;
use crate::store::redis::shared::Shared;

/// So often an update begins anew because somebody else was faster.
const RACES_MAX: usize = 16;

/// Gives an event another payload.
///
/// The body is read and made anew here, as only this side knows its checksum; the script takes it
/// only if nobody has changed it meanwhile.
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
        let new = match read.is_empty() {
            true => Vec::new(), // it is over or was never there, as the script will say
            false => {
                let mut envelope = body::decode(id, &bucket.queue, &read)?;
                envelope.payload = payload.clone();
                body::encode(&envelope)
            }
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
        format!("event {id} was updated by others again and again; it was not by this"),
    ))
}

/// Gives events the same values in another form.
///
/// As in an update, the bodies are made here, and the script takes each only if nobody has changed
/// it meanwhile.
pub(super) async fn rewrite(
    shared: &Shared,
    bucket: &BucketKey,
    rewritings: &[Rewriting],
) -> Result<Answer> {
    bounded("events", rewritings.len())?;
    let ids: Vec<EventId> = rewritings.iter().map(|one| one.id).collect();
    let (_, mut parts) = look(shared, bucket, &ids).await?;
    let keys = shared.keys(bucket);
    let mut call = shared.terms().call(&scripts::REWRITE, &keys);
    for Rewriting { id, was, payload } in rewritings {
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
    }
    let mut parts = shared.call(shared.links.for_pushes(bucket), &call).await?;
    Ok(Answer {
        now_us: parts.number()?,
        reply: Reply::Counted(parts.count()?),
    })
}

/// Reads dead events in the order of their ids.
///
/// One call, unless somebody has deleted parts of such events by hand: as fewer than asked for are
/// the last, others are read in their place.
pub(super) async fn read_dead(
    shared: &Shared,
    bucket: &BucketKey,
    mut after: Option<EventId>,
    limit: usize,
) -> Result<Answer> {
    let limit = limit.min(BATCH_MAX);
    let keys = shared.keys(bucket);
    let (mut letters, mut now_us) = (Vec::new(), 0);
    loop {
        let wanted = limit - letters.len();
        let call = shared.terms().read_dead(&keys, after, wanted);
        let mut parts = shared.call(shared.links.for_pushes(bucket), &call).await?;
        now_us = parts.number()?.max(now_us);
        let mut found = 0;
        while !parts.is_empty() {
            let (id, letter) = paged(&bucket.queue, &mut parts)?;
            (after, found) = (Some(id), found + 1);
            letters.extend(letter.filter(|letter| letter.state == State::Dead));
        }
        if letters.len() >= limit || found < wanted {
            let reply = Reply::Dead(letters);
            return Ok(Answer { now_us, reply });
        }
    }
}

async fn look(shared: &Shared, bucket: &BucketKey, ids: &[EventId]) -> Result<(u64, Parts)> {
    let call = shared.terms().look(&shared.keys(bucket), ids);
    let mut parts = shared.call(shared.links.for_pushes(bucket), &call).await?;
    Ok((parts.number()?, parts))
}
