//! Takes back leases that their node reports it does not hold.

use crate::core::engine::bounded;
use crate::core::op::{BATCH_MAX, ReapReport, Reply, RequestId, StartMark};
use crate::error::Result;
use crate::event::{EventId, QueueName};
use crate::record::NodeId;
use crate::store::redis::op::reply::DecodedReply;
use crate::store::redis::script::call::{Call, CallContext, EXACT_MAX};
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::table::{Encoded, script};

script! {
    /// Takes back leases that their node reports it does not hold.
    RECONCILE = "reconcile", DRAINS, Ending,
        ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "nodes", "take_back"];
    ReconcileArguments<'a> {
        /// The calling process, which is not notified.
        origin: &'a str,
        /// The most events to take back, at most 1000.
        take_max: usize,
        node: NodeId,
        /// The first and the last of the requests.
        from: Encoded,
        through: Encoded,
        /// The last fetch on whose leases handlers of the node may have started, and on how many of
        /// them, from the first one.
        started: u64,
        starts: usize,
    }
    each HeldBatch {
        /// A request of which the node holds something.
        token: Encoded,
        ids: Vec<u8>,
    }
    reply ReconcileReply {
        now: u64,
        earlier: bool,
        /// How many events are ready again, and how many are dead.
        ready: usize,
        dead: usize,
        /// Whether there is more to take back.
        more: bool,
    }
}

/// What a node states of its leases.
#[derive(Clone, Copy)]
pub(super) struct Statement<'a> {
    pub(super) node: NodeId,
    pub(super) from: RequestId,
    pub(super) through: RequestId,
    pub(super) held: &'a [(RequestId, Vec<EventId>)],
    pub(super) started: StartMark,
    pub(super) limit: usize,
}

pub(super) fn call(context: &CallContext<'_>, it: Statement<'_>) -> Result<Call> {
    bounded("fetches", it.held.len())?;
    bounded("events", it.held.iter().map(|(_, ids)| ids.len()).sum())?;
    let arguments = ReconcileArguments {
        origin: &context.origin,
        take_max: it.limit.min(BATCH_MAX),
        node: it.node,
        from: Encoded(it.from),
        through: Encoded(it.through),
        started: it.started.request.min(EXACT_MAX),
        starts: it.started.leases.min(BATCH_MAX),
    };
    let batch = |(request, ids): &(RequestId, Vec<EventId>)| HeldBatch {
        token: Encoded(*request),
        ids: ids.iter().flat_map(|id| id.to_bytes()).collect(),
    };
    let call = context.call(arguments);
    Ok(call.with_rows(it.held.iter().map(batch)))
}

pub(super) fn read(
    _: &QueueName,
    mut parts: ReplyReader,
    _: Statement<'_>,
) -> Result<DecodedReply> {
    let reply = ReconcileReply::read(&mut parts)?;
    let reaped = ReapReport {
        ready: reply.ready,
        dead: reply.dead,
        more: reply.more,
        ..ReapReport::default()
    };
    Ok(DecodedReply {
        is_earlier: reply.earlier,
        has_recorded: reaped.ready + reaped.dead > 0,
        ..DecodedReply::new(reply.now, Reply::Reaped(reaped))
    })
}
