//! A node's heartbeat, which extends all its leases in a bucket.

use crate::core::op::{BATCH_MAX, HeartbeatReport, Holding, Reply, StartMark};
use crate::error::Result;
use crate::event::QueueName;
use crate::record::NodeId;
use crate::store::redis::op::reply::DecodedReply;
use crate::store::redis::script::call::{Call, CallContext, EXACT_MAX};
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::table::script;

script! {
    /// Extends all leases of a node.
    HEARTBEAT = "heartbeat", DRAINS, Bucket, ["bucket", "state", "nodes"];
    HeartbeatArguments {
        node: NodeId,
        /// How many leases the node knows of, by its requests up to `last`.
        leases: u32,
        last: u64,
        /// The last fetch on whose leases handlers of the node may have started, and on how many of
        /// them, from the first one.
        started: u64,
        starts: usize,
    }
    reply HeartbeatReply {
        now: u64,
        /// False if its leases were taken back or it has none.
        stands: bool,
        /// How many leases it has that last as long as its heartbeat.
        kept: usize,
        /// Its last request.
        last: u64,
    }
}

pub(super) fn call(
    context: &CallContext<'_>,
    (node, holds, started): (NodeId, Holding, StartMark),
) -> Result<Call> {
    Ok(context.call(HeartbeatArguments {
        node,
        leases: u32::try_from(holds.leases).unwrap_or(u32::MAX),
        last: holds.last.min(EXACT_MAX),
        started: started.request.min(EXACT_MAX),
        starts: started.leases.min(BATCH_MAX),
    }))
}

pub(super) fn read(
    _: &QueueName,
    mut parts: ReplyReader,
    _: (NodeId, Holding, StartMark),
) -> Result<DecodedReply> {
    let reply = HeartbeatReply::read(&mut parts)?;
    let kept = HeartbeatReport {
        stands: reply.stands,
        holding: Holding {
            leases: reply.kept,
            last: reply.last,
        },
    };
    Ok(DecodedReply::new(reply.now, Reply::Heartbeat(kept)))
}
