//! Operations of an operator that take more than one call: update and peek.

use std::collections::BTreeSet;

use crate::core::op::{Answer, BATCH_MAX, Reply, Rewriting, Snapshot};
use crate::core::reference::{bounded, check_by};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, EventId, Payload, State};
use crate::store::redis::answer::{Parts, id_of, snapshot, unreadable, updated};
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
        let call = shared.terms().update(&keys, id, head, &new, by);
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

/// Reads events of one state in the order of their ids.
///
/// Only dead letters are kept in that order. For other states every id of the state is listed, part
/// by part so that the servers do others' work in between, and the least are looked up.
pub(super) async fn peek(
    shared: &Shared,
    bucket: &BucketKey,
    state: State,
    after: Option<EventId>,
    limit: usize,
) -> Result<Answer> {
    let limit = limit.min(BATCH_MAX);
    let keys = shared.keys(bucket);
    let (mut found, mut after, mut now_us) = (Vec::new(), after, 0);
    loop {
        let mut least = BTreeSet::new();
        let mut from = match (state, after) {
            (State::Dead, Some(after)) => after.to_bytes().to_vec(),
            (State::Dead, None) => Vec::new(),
            _ => b"0".to_vec(),
        };
        let mut place = 0;
        loop {
            let call = shared.terms().list(&keys, state, &from, BATCH_MAX);
            let mut parts = shared.call(shared.links.for_pushes(bucket), &call).await?;
            now_us = parts.number()?.max(now_us);
            let many = parts.len();
            while !parts.is_empty() {
                let bytes = parts.bytes()?;
                let is_batch = !matches!(state, State::Scheduled | State::Ready | State::Dead);
                for id in ids_of(&bytes, is_batch)? {
                    if after.is_none_or(|after| id > after) {
                        least.insert(id);
                        if least.len() > BATCH_MAX {
                            least.pop_last();
                        }
                    }
                }
            }
            place += many;
            // Dead letters come in order, so the first part has the least; leased ones come at once.
            if many < BATCH_MAX || matches!(state, State::Dead | State::Leased) {
                break;
            }
            from = place.to_string().into_bytes();
        }
        // Some of them may be in another state by now, or have been all along.
        let ids: Vec<EventId> = least.into_iter().collect();
        let (looked_us, mut parts) = look(shared, bucket, &ids).await?;
        now_us = now_us.max(looked_us);
        for id in &ids {
            let snapshot: Option<Snapshot> = snapshot(&bucket.queue, *id, &mut parts)?;
            let those = snapshot.filter(|snapshot| snapshot.state == state);
            found.extend(those.filter(|_| found.len() < limit));
        }
        after = ids.last().copied();
        if found.len() >= limit || ids.len() < BATCH_MAX {
            return Ok(Answer {
                now_us,
                reply: Reply::Peeked(found),
            });
        }
    }
}

/// The ids of one part of a list: one, or a batch of them.
pub(super) fn ids_of(bytes: &[u8], is_batch: bool) -> Result<Vec<EventId>> {
    let ids = bytes.chunks(if is_batch { 16 } else { bytes.len().max(1) });
    ids.map(|id| id_of(id).ok_or_else(|| unreadable("list")))
        .collect()
}

async fn look(shared: &Shared, bucket: &BucketKey, ids: &[EventId]) -> Result<(u64, Parts)> {
    let call = shared.terms().look(&shared.keys(bucket), ids);
    let mut parts = shared.call(shared.links.for_pushes(bucket), &call).await?;
    Ok((parts.number()?, parts))
}
