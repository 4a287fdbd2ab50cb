//! Encoding and decoding of lease operations: heartbeat, reconcile, extend, reap, and the reply of
//! a fetch.

use std::sync::Arc;

use redis::Cmd;

use crate::codec::body;
use crate::core::op::{
    BATCH_MAX, Delivery, Fetch, Fetched, Holding, Reaped, SetAside, StartMark, StoreOp,
};
use crate::core::reference::bounded;
use crate::error::{Error, Result};
use crate::event::{EventId, QueueName};
use crate::store::redis::decode::{ReplyReader, id_of, number_at, unreadable};
use crate::store::redis::encode::{Call, CallContext, EXACT_MAX, us};
use crate::store::redis::keys::BucketKeys;
use crate::store::redis::page::{self, LEASE_LEN};
use crate::store::redis::scripts;
use crate::time::Timestamp;

impl CallContext<'_> {
    /// Encodes one of these operations.
    pub(super) fn leases(&self, keys: &BucketKeys, op: &StoreOp) -> Result<Call> {
        Ok(match op {
            StoreOp::Heartbeat {
                node,
                holds,
                started,
            } => {
                let mut call = self.call(&scripts::HEARTBEAT, keys);
                let leases = u32::try_from(holds.leases).unwrap_or(u32::MAX);
                call.command
                    .arg(&node.0.to_be_bytes())
                    .arg(leases)
                    .arg(holds.last.min(EXACT_MAX));
                add_mark(&mut call.command, *started);
                call
            }
            StoreOp::Reconcile {
                node,
                from,
                through,
                held,
                started,
                limit,
            } => {
                bounded("fetches", held.len())?;
                bounded("events", held.iter().map(|(_, ids)| ids.len()).sum())?;
                let mut call = self.ending(&scripts::RECONCILE, keys);
                call.command
                    .arg(self.origin)
                    .arg((*limit).min(BATCH_MAX))
                    .arg(&node.0.to_be_bytes())
                    .arg(&from.to_be_bytes())
                    .arg(&through.to_be_bytes());
                add_mark(&mut call.command, *started);
                for (request, ids) in held {
                    let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_bytes()).collect();
                    call.command.arg(&request.to_be_bytes()).arg(ids);
                }
                call
            }
            StoreOp::Extend { node, leases, hold } => {
                bounded("leases", leases.len())?;
                let mut call = self.call(&scripts::EXTEND, keys);
                call.command.arg(&node.0.to_be_bytes()).arg(us(*hold));
                for (id, request) in leases {
                    call.command.arg(&id.to_bytes()).arg(&request.to_be_bytes());
                }
                call
            }
            StoreOp::Reap { silent, limit } => {
                bounded("silent nodes", silent.len())?;
                let mut call = self.ending(&scripts::REAP, keys);
                call.command.arg(self.origin).arg((*limit).min(BATCH_MAX));
                for (node, beat) in silent {
                    call.command.arg(&node.0.to_be_bytes()).arg(*beat);
                }
                call
            }
            _ => return Err(Error::invalid("this is no lease operation")),
        })
    }
}

/// Adds the mark up to which handlers of a node may have started.
pub(super) fn add_mark(command: &mut Cmd, mark: StartMark) {
    command
        .arg(mark.request.min(EXACT_MAX))
        .arg(mark.leases.min(BATCH_MAX));
}

pub(super) fn fetched(
    queue: &QueueName,
    fetch: &Fetch,
    parts: &mut ReplyReader,
    (damaged, newer): (&mut Vec<(EventId, Error)>, &mut usize),
) -> Result<Fetched> {
    let (ready, next_due) = (parts.count()?, parts.time()?);
    let (crowd_due, full) = (parts.time()?, parts.is_so()?);
    let holding = holding(parts)?;
    *newer = parts.count()?;
    let places = parts.bytes()?;
    let place_of = |at: usize| match places.get(2 * at..2 * at + 2) {
        Some(place) => usize::from(u16::from_be_bytes([place[0], place[1]])),
        None => at,
    };
    let mut deliveries = Vec::with_capacity(parts.len() / 3);
    let mut at = 0;
    let mut deliver = |id, state: &[u8; LEASE_LEN], bytes: &[u8]| {
        match body::decode(id, queue, bytes) {
            Ok(envelope) => deliveries.push(Delivery {
                id,
                body: Arc::new(envelope),
                due: Timestamp::from_millis(number_at(state, 2)),
                attempt: u16::from_be_bytes([state[0], state[1]]),
                request: fetch.request,
                place: place_of(at),
                moved_us: number_at(state, 10),
            }),
            Err(error) => damaged.push((id, error)),
        }
        at += 1;
    };
    // Three for each event or part of a page, and possibly two more after them.
    while parts.len() > 2 {
        let (name, state, bytes) = (parts.bytes()?, parts.bytes()?, parts.bytes()?);
        match page::Part::named(&name) {
            Some(part) => {
                let lease = page::lease_at(&state).ok_or_else(|| unreadable("fetch"))?;
                for (id, bytes) in part.events(&bytes) {
                    deliver(id, &lease, bytes);
                }
            }
            None => {
                let id = id_of(&name).ok_or_else(|| unreadable("fetch"))?;
                let lease = state.get(2..).and_then(|rest| rest.first_chunk());
                deliver(id, lease.ok_or_else(|| unreadable("fetch"))?, &bytes);
            }
        }
    }
    Ok(Fetched {
        deliveries,
        ready,
        next_due,
        crowd_due,
        full,
        holding,
        aside: set_aside(parts)?,
    })
}

/// Reads what ends a reply if events were ended because they had expired or were too late.
pub(super) fn set_aside(parts: &mut ReplyReader) -> Result<SetAside> {
    if parts.is_empty() {
        return Ok(SetAside::default());
    }
    Ok(SetAside {
        expired: parts.count()?,
        late: parts.count()?,
    })
}

pub(super) fn holding(parts: &mut ReplyReader) -> Result<Holding> {
    Ok(Holding {
        leases: parts.count()?,
        last: parts.number()?,
    })
}

pub(super) fn reaped(parts: &mut ReplyReader) -> Result<Reaped> {
    let mut reaped = taken_back(parts)?;
    reaped.next_deadline = parts.time()?;
    while !parts.is_empty() {
        reaped.holders.push((parts.node()?, parts.number()?));
    }
    Ok(reaped)
}

pub(super) fn taken_back(parts: &mut ReplyReader) -> Result<Reaped> {
    Ok(Reaped {
        ready: parts.count()?,
        dead: parts.count()?,
        more: parts.is_so()?,
        ..Reaped::default()
    })
}
