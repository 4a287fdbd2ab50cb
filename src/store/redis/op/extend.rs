//! Moves the deadlines of leases that have their own.

use std::time::Duration;

use crate::core::engine::bounded;
use crate::core::op::{Reply, RequestId};
use crate::error::Result;
use crate::event::{EventId, QueueName};
use crate::record::NodeId;
use crate::store::redis::op::reply::DecodedReply;
use crate::store::redis::script::call::{Call, CallContext, us};
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::table::{Encoded, script};

script! {
    /// Extends leases with deadlines.
    EXTEND = "extend", DRAINS, Bucket, ["bucket", "state", "page", "nodes"];
    ExtendArguments {
        node: NodeId,
        /// The new deadline, us from now.
        hold: u64,
    }
    each ExtendedLease {
        id: EventId,
        request: Encoded,
    }
    reply ExtendReply {
        now: u64,
        /// "1" for each lease that still existed and "0" for each other.
        stood: Vec<bool>,
    }
}

type Request<'a> = (NodeId, &'a [(EventId, RequestId)], Duration);

pub(super) fn call(context: &CallContext<'_>, (node, leases, hold): Request<'_>) -> Result<Call> {
    bounded("leases", leases.len())?;
    let hold = us(hold);
    let call = context.call(ExtendArguments { node, hold });
    Ok(
        call.with_rows(leases.iter().map(|(id, request)| ExtendedLease {
            id: *id,
            request: Encoded(*request),
        })),
    )
}

pub(super) fn read(_: &QueueName, mut parts: ReplyReader, _: Request<'_>) -> Result<DecodedReply> {
    let reply = ExtendReply::read(&mut parts)?;
    Ok(DecodedReply::new(reply.now, Reply::Extended(reply.stood)))
}
