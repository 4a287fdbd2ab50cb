//! Leases events to a node.

use std::sync::Arc;

use crate::codec::body;
use crate::core::op::{
    BATCH_MAX, CROWD, CROWD_SPAN, Delivery, Fetch, FetchReport, Holding, Reply, SetAside,
};
use crate::error::Result;
use crate::event::QueueName;
use crate::record::NodeId;
use crate::store::redis::op::move_due::set_aside;
use crate::store::redis::op::page::{self, LEASE_LEN};
use crate::store::redis::op::reply::DecodedReply;
use crate::store::redis::script::call::{Call, CallContext, us, us_down};
use crate::store::redis::script::reader::{ReplyReader, id_of, number_at, unreadable};
use crate::store::redis::script::table::{Encoded, script};
use crate::time::Timestamp;

script! {
    /// Leases events to a node.
    FETCH = "fetch", DRAINS, Ending, ["bucket", "state", "page", "bytes", "body", "ending", "nodes"];
    FetchArguments {
        /// One that was reaped is refused.
        node: NodeId,
        /// A request that is not greater than the last one leases nothing and returns what is still
        /// held under its number.
        request: u64,
        /// The request, encoded.
        token: Encoded,
        /// The most ready events.
        limit: usize,
        /// How long before its due time an event may be leased, us.
        ahead: u64,
        /// The most of those.
        ahead_limit: usize,
        /// The lease duration, us; otherwise as long as the node's heartbeat lasts.
        hold: Option<u64>,
        /// On how many of the leases, from the first one, handlers may start.
        starts: usize,
        /// How many scheduled events are a crowd, and within how many ms of the first one.
        crowd: usize,
        crowd_span: u128,
    }
    reply FetchReply {
        now: u64,
        /// How many ready events are left.
        ready: usize,
        next_due: Option<Timestamp>,
        /// When the last of a crowd is due.
        crowd_due: Option<Timestamp>,
        /// Whether it stopped before it had examined all candidates.
        full: bool,
        /// How many leases the node has that last as long as its heartbeat.
        kept: usize,
        /// Its last request before this one.
        last: u64,
        /// How many events it left to a newer duly.
        newer: usize,
        /// The places of the deliveries in their batch, two bytes each, or "" where they are 0 and so
        /// on. Then three for each delivery: id; its state, of which the bytes 3 to 20 are those of its
        /// lease; body. Or three for all events of a part of a page: its first id and how many there
        /// are; its times; its body. Two more may follow, see [`set_aside`].
        places: Vec<u8>,
    }
}

pub(super) fn call(context: &CallContext<'_>, fetch: &Fetch) -> Result<Call> {
    Ok(context.call(FetchArguments {
        node: fetch.node,
        request: fetch.request,
        token: Encoded(fetch.request),
        limit: fetch.limit.min(BATCH_MAX),
        ahead: us_down(fetch.ahead),
        ahead_limit: fetch.ahead_limit.min(BATCH_MAX),
        hold: fetch.hold.map(us),
        starts: fetch.starts.min(BATCH_MAX),
        crowd: CROWD,
        crowd_span: CROWD_SPAN.as_millis(),
    }))
}

pub(super) fn read(
    queue: &QueueName,
    mut parts: ReplyReader,
    fetch: &Fetch,
) -> Result<DecodedReply> {
    let reply = FetchReply::read(&mut parts)?;
    let mut damaged = Vec::new();
    let places = reply.places;
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
    let aside = set_aside(&mut parts)?;
    let fetched = FetchReport {
        deliveries,
        ready: reply.ready,
        next_due: reply.next_due,
        crowd_due: reply.crowd_due,
        full: reply.full,
        holding: Holding {
            leases: reply.kept,
            last: reply.last,
        },
        aside,
    };
    Ok(DecodedReply {
        has_recorded: aside != SetAside::default(),
        newer: reply.newer,
        damaged,
        ..DecodedReply::new(reply.now, Reply::Fetched(fetched))
    })
}
