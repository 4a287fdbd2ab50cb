//! Takes back the leases of silent nodes and those past their deadline.

use crate::core::engine::bounded;
use crate::core::op::{BATCH_MAX, ReapReport, Reply};
use crate::error::Result;
use crate::event::QueueName;
use crate::record::NodeId;
use crate::store::redis::op::reply::DecodedReply;
use crate::store::redis::script::call::{Call, CallContext};
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::table::script;
use crate::time::Timestamp;

script! {
    /// Takes back the leases of silent nodes and those past their deadline.
    REAP = "reap", DRAINS, Ending,
        ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "nodes", "take_back", "taken"];
    ReapArguments<'a> {
        /// The calling process, which is not notified.
        origin: &'a str,
        /// The most events to take back, at most 1000.
        take_max: usize,
    }
    each SilentNode {
        silent: NodeId,
        /// Its last heartbeat that the caller saw.
        beat: u64,
    }
    reply ReapReply {
        now: u64,
        earlier: bool,
        /// How many events are ready again, and how many are dead.
        ready: usize,
        dead: usize,
        /// Whether there is more to take back.
        more: bool,
        /// Then two for each node with leases: node; heartbeat.
        next_deadline: Option<Timestamp>,
    }
}

pub(super) fn call(
    context: &CallContext<'_>,
    (silent, limit): (&[(NodeId, u64)], usize),
) -> Result<Call> {
    bounded("silent nodes", silent.len())?;
    let call = context.call(ReapArguments {
        origin: &context.origin,
        take_max: limit.min(BATCH_MAX),
    });
    let rows = silent.iter();
    Ok(call.with_rows(rows.map(|&(silent, beat)| SilentNode { silent, beat })))
}

pub(super) fn read(
    _: &QueueName,
    mut parts: ReplyReader,
    _: (&[(NodeId, u64)], usize),
) -> Result<DecodedReply> {
    let reply = ReapReply::read(&mut parts)?;
    let mut holders = Vec::new();
    while !parts.is_empty() {
        holders.push((parts.node()?, parts.number()?));
    }
    let reaped = ReapReport {
        ready: reply.ready,
        dead: reply.dead,
        more: reply.more,
        holders,
        next_deadline: reply.next_deadline,
    };
    Ok(DecodedReply {
        is_earlier: reply.earlier,
        has_recorded: reaped.ready + reaped.dead > 0,
        ..DecodedReply::new(reply.now, Reply::Reaped(reaped))
    })
}
