//! Ends attempts, in as many calls as their bodies need.

use std::time::Duration;

use redis::Cmd;

use crate::core::engine::bounded;
use crate::core::op::{
    AttemptOutcome, BATCH_MAX, FREE_INTERRUPTIONS_MAX, Reply, Response, Settlement, StartMark,
};
use crate::error::Result;
use crate::event::{BucketKey, EventId};
use crate::record::{Cause, NodeId, cut_error};
use crate::store::redis::op::in_parts::part;
use crate::store::redis::op::record;
use crate::store::redis::op::shared::Shared;
use crate::store::redis::script::call::{Call, CallContext, EXACT_MAX, us};
use crate::store::redis::script::reader::{ReplyReader, unreadable};
use crate::store::redis::script::table::{Encoded, Row, Text, script};
use crate::time::DELAY_MAX;

script! {
    /// Ends attempts, each only under its own lease, and writes their records.
    SETTLE = "settle", DRAINS, Ending,
        ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "nodes"];
    SettleArguments<'a> {
        node: NodeId,
        /// The calling process, which is not notified.
        origin: &'a str,
        /// The longest delay, us.
        delay_max: u64,
        /// The last fetch on whose leases handlers of the node may start from now on, and on how many
        /// of them, from the first one.
        started: u64,
        starts: usize,
    }
    each AckRun {
        /// How many acks under one request, above 0; no id may occur twice then.
        acks: usize,
        request: Encoded,
        /// The ids, each with fetched and started, us, encoded.
        said: Vec<u8>,
    }
    each AnySettlement<'a> {
        /// 0: one settlement of any kind.
        no_acks: u8,
        id: EventId,
        /// Kind (a ack, t retry, z snooze, b bury, x discard, e expire, r release, i interrupt),
        /// request, fetched and started, us, encoded, then for t, z and i the delay, us, encoded,
        /// then for t, b and i the cause, a byte, plus 128 of a damaged body, then for i how many
        /// interruptions in a row are free, a byte.
        settlement: Vec<u8>,
        error: Text<'a>,
    }
    reply SettleReply {
        now: u64,
        earlier: bool,
        /// "1" for each accepted settlement and "0" for each whose lease was lost. Where the bodies of
        /// the first ones exceed the limit of one call, it settles only those, and the text ends with
        /// them.
        accepted: Vec<bool>,
    }
}

/// Ends attempts. `damaged` is added to each cause.
pub(in crate::store::redis) async fn settle(
    shared: &Shared,
    bucket: &BucketKey,
    node: NodeId,
    settlements: &[Settlement],
    started: StartMark,
    damaged: u8,
) -> Result<Response> {
    let (mut accepted, mut now_us) = (Vec::new(), 0);
    loop {
        let rest = &settlements[accepted.len()..];
        let terms = shared.terms(bucket);
        let call = call(&terms, node, rest, (started, damaged))?;
        let settling = shared.call(bucket, &shared.links.work, &call);
        let parts = part(settling, !accepted.is_empty()).await?;
        let (now, is_earlier, some) = read_settled(parts, rest.len())?;
        now_us = now.max(now_us);
        shared.learn(&terms, now);
        if is_earlier {
            shared.tell(bucket);
        }
        if some.contains(&true) {
            shared.outboxes.tell(bucket);
        }
        accepted.extend(some);
        if accepted.len() == settlements.len() {
            let reply = Reply::Settled(accepted);
            return Ok(Response { now_us, reply });
        }
    }
}

/// Decodes the reply of a settle: the time, whether there is earlier work, and of each of the first
/// settlements whether it was accepted.
pub fn read_settled(mut parts: ReplyReader, sent: usize) -> Result<(u64, bool, Vec<bool>)> {
    let reply = SettleReply::read(&mut parts)?;
    if reply.accepted.len() > sent || (reply.accepted.is_empty() && sent > 0) {
        return Err(unreadable("settle"));
    }
    Ok((reply.now, reply.earlier, reply.accepted))
}

/// Calls the script. `damaged` is added to each cause: 0, or [`DAMAGED`](record::DAMAGED).
fn call(
    context: &CallContext<'_>,
    node: NodeId,
    settlements: &[Settlement],
    (started, damaged): (StartMark, u8),
) -> Result<Call> {
    bounded("settlements", settlements.len())?;
    let arguments = SettleArguments {
        node,
        origin: &context.origin,
        delay_max: us(DELAY_MAX),
        started: started.request.min(EXACT_MAX),
        starts: started.leases.min(BATCH_MAX),
    };
    let mut call = context.call(arguments);
    let (command, has_twins) = (&mut call.command, has_twins(settlements));
    for run in runs(settlements) {
        let first = &run[0]; // a run is never empty
        if has_twins || !is_ack(first) {
            for settlement in run {
                add_any(command, settlement, damaged);
            }
            continue;
        }
        add_acks(command, run);
    }
    Ok(call)
}

/// The bytes of an ack: the event's id, when it was fetched and when it was started.
const ACK_LEN: usize = 32;

/// Adds acks under one request.
fn add_acks(command: &mut Cmd, acks: &[Settlement]) {
    let mut said = Vec::with_capacity(ACK_LEN * acks.len());
    for ack in acks {
        said.extend_from_slice(&ack.id.to_bytes());
        said.extend_from_slice(&ack.fetched_us.to_be_bytes());
        said.extend_from_slice(&ack.started_us.to_be_bytes());
    }
    AckRun {
        acks: acks.len(),
        request: Encoded(acks[0].request), // a chunk is never empty
        said,
    }
    .add_to(command);
}

fn is_ack(settlement: &Settlement) -> bool {
    settlement.verdict == AttemptOutcome::Ack
}

/// Groups consecutive acks under one request, for a compact encoding; others stay single.
fn runs(settlements: &[Settlement]) -> impl Iterator<Item = &[Settlement]> {
    settlements.chunk_by(|a, b| is_ack(a) && is_ack(b) && a.request == b.request)
}

fn has_twins(settlements: &[Settlement]) -> bool {
    let mut ids: Vec<_> = settlements.iter().map(|settlement| settlement.id).collect();
    ids.sort_unstable();
    ids.windows(2).any(|pair| pair[0] == pair[1])
}

fn add_any(command: &mut Cmd, settlement: &Settlement, damaged: u8) {
    let mut said = Vec::new();
    let error = say(settlement, damaged, &mut said);
    let error = error.map(|error| cut_error(error.to_owned()));
    AnySettlement {
        no_acks: 0,
        id: settlement.id,
        settlement: said,
        error: Text(error.as_deref()),
    }
    .add_to(command);
}

/// Encodes a settlement; returns its error text.
fn say<'a>(settlement: &'a Settlement, damaged: u8, out: &mut Vec<u8>) -> Option<&'a String> {
    let (letter, delay, failing, error) = match &settlement.verdict {
        AttemptOutcome::Ack => (b'a', None, None, None),
        AttemptOutcome::Retry(delay, why) => {
            (b't', Some(*delay), Some(why.cause), why.error.as_ref())
        }
        AttemptOutcome::Snooze(delay) => (b'z', Some(*delay), None, None),
        AttemptOutcome::Bury(why) => (b'b', None, Some(why.cause), why.error.as_ref()),
        AttemptOutcome::Discard(error) => (b'x', None, None, error.as_ref()),
        AttemptOutcome::Expire => (b'e', None, None, None),
        AttemptOutcome::Release => (b'r', None, None, None),
        AttemptOutcome::Interrupt { .. } => {
            (b'i', Some(Duration::ZERO), Some(Cause::Interrupted), None)
        }
    };
    out.push(letter);
    out.extend_from_slice(&settlement.request.to_be_bytes());
    out.extend_from_slice(&settlement.fetched_us.to_be_bytes());
    out.extend_from_slice(&settlement.started_us.to_be_bytes());
    if let Some(delay) = delay {
        out.extend_from_slice(&us(delay.min(DELAY_MAX)).to_be_bytes());
    }
    if let Some(cause) = failing {
        out.push(record::cause_byte(cause) + damaged);
    }
    if let AttemptOutcome::Interrupt { free } = settlement.verdict {
        out.push(free.min(FREE_INTERRUPTIONS_MAX));
    }
    error
}
