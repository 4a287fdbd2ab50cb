//! Operations that may take several calls: each call does as much as its byte limit allows.
//!
//! Each event is changed on its own, so the split is not observable. A call that fails after
//! another has succeeded leaves the whole unknown: repeating the operation does the rest.

use crate::core::op::{Answer, Reply, Settlement, StartMark, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, EventId};
use crate::record::NodeId;
use crate::store::redis::decode::{ReplyReader, unreadable};
use crate::store::redis::encode::Call;
use crate::store::redis::link::managed::ManagedConnection;
use crate::store::redis::shared::Shared;

/// Ends attempts. `damaged` is added to each cause.
pub(super) async fn settle(
    shared: &Shared,
    bucket: &BucketKey,
    node: NodeId,
    settlements: &[Settlement],
    started: StartMark,
    damaged: u8,
) -> Result<Answer> {
    let (keys, mut accepted, mut now_us) = (shared.keys(bucket), Vec::new(), 0);
    loop {
        let rest = &settlements[accepted.len()..];
        let terms = shared.terms();
        let call = terms.settle(&keys, node, rest, started, damaged)?;
        let parts = call_part(shared, &shared.links.work, &call, !accepted.is_empty()).await;
        let (now, is_earlier, some) = read_settled(parts?, rest.len())?;
        now_us = now.max(now_us);
        shared.learn(&keys, terms.mono_us, now);
        if is_earlier {
            shared.tell(bucket);
        }
        if some.contains(&true) {
            shared.outboxes.tell(bucket);
        }
        accepted.extend(some);
        if accepted.len() == settlements.len() {
            let reply = Reply::Settled(accepted);
            return Ok(Answer { now_us, reply });
        }
    }
}

/// Revives or drops dead events.
pub(super) async fn revive_or_drop(
    shared: &Shared,
    bucket: &BucketKey,
    op: &StoreOp,
) -> Result<Answer> {
    let (ids, by, revives) = match op {
        StoreOp::Revive { ids, by } => (ids, by, true),
        StoreOp::Drop { ids, by } => (ids, by, false),
        _ => return Err(Error::invalid("the operation takes a single call")),
    };
    let keys = shared.keys(bucket);
    let (mut rest, mut count, mut now_us): (&[EventId], _, _) = (ids, 0, 0);
    loop {
        let terms = shared.terms();
        let call = if revives {
            terms.revive(&keys, rest, by.as_deref())?
        } else {
            terms.drop(&keys, rest, by.as_deref())?
        };
        let link = shared.links.for_pushes(bucket);
        let parts = call_part(shared, link, &call, rest.len() < ids.len()).await?;
        let counted = read_counted(parts, rest.len(), revives)?;
        let (now, is_earlier, done, looked) = counted;
        now_us = now.max(now_us);
        shared.learn(&keys, terms.mono_us, now);
        if is_earlier {
            shared.tell(bucket);
        }
        if done > 0 {
            shared.outboxes.tell(bucket);
        }
        (rest, count) = (&rest[looked..], count + done);
        if rest.is_empty() {
            let reply = Reply::Counted(count);
            return Ok(Answer { now_us, reply });
        }
    }
}

/// Decodes the reply of a settle: the time, whether there is earlier work, and of each of the first
/// settlements whether it was accepted.
pub fn read_settled(mut parts: ReplyReader, asked: usize) -> Result<(u64, bool, Vec<bool>)> {
    let (now_us, is_earlier, accepted) = (parts.number()?, parts.is_so()?, parts.flags()?);
    if accepted.len() > asked || (accepted.is_empty() && asked > 0) {
        return Err(unreadable("settle"));
    }
    Ok((now_us, is_earlier, accepted))
}

/// Decodes the reply of a revive or drop: the time, whether there is earlier work, how many events
/// were changed, and how many of the ids were processed.
pub fn read_counted(
    mut parts: ReplyReader,
    asked: usize,
    revives: bool,
) -> Result<(u64, bool, usize, usize)> {
    let (now_us, is_earlier) = (parts.number()?, revives && parts.is_so()?);
    let (done, looked) = (parts.count()?, parts.count()?);
    if done > looked || looked > asked || (looked == 0 && asked > 0) {
        return Err(unreadable("revive"));
    }
    Ok((now_us, is_earlier, done, looked))
}

/// Makes one call; its failure leaves the whole unknown once an earlier part has succeeded.
async fn call_part(
    shared: &Shared,
    link: &ManagedConnection,
    call: &Call,
    is_begun: bool,
) -> Result<ReplyReader> {
    shared.call(link, call).await.map_err(|error| {
        if is_begun {
            Error::new(
                ErrorKind::Unknown,
                "the operation was done in part; repeating it does the rest",
            )
            .because(error)
        } else {
            error
        }
    })
}
