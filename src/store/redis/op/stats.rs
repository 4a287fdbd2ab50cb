//! Counts events by state.

use crate::core::op::{Reply, Stats};
use crate::error::Result;
use crate::event::QueueName;
use crate::store::redis::op::reply::DecodedReply;
use crate::store::redis::script::call::{Call, CallContext};
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::table::script;
use crate::time::Timestamp;

script! {
    /// Counts events by state.
    STATS = "stats", DRAINS, Bucket, ["bucket", "state", "page", "unreaped", "unexpired"];
    StatsArguments {}
    reply StatsReply {
        now: u64,
        scheduled: usize,
        /// What is due and not moved yet is ready.
        ready: usize,
        leased: usize,
        dead: usize,
        /// Since when the first event of the ready list is there, or the first one in the delay set is
        /// due; false when none is, or when more stale entries precede it than one call reads.
        oldest_ready: Option<Timestamp>,
    }
}

pub(super) fn call(context: &CallContext<'_>, (): ()) -> Result<Call> {
    Ok(context.call(StatsArguments {}))
}

pub(super) fn read(_: &QueueName, mut parts: ReplyReader, (): ()) -> Result<DecodedReply> {
    let reply = StatsReply::read(&mut parts)?;
    let stats = Stats {
        scheduled: reply.scheduled,
        ready: reply.ready,
        leased: reply.leased,
        dead: reply.dead,
        oldest_ready: reply.oldest_ready,
    };
    Ok(DecodedReply::new(reply.now, Reply::Stats(stats)))
}
