//! Encoding of a settle.

use std::time::Duration;

use redis::Cmd;

use crate::core::op::{AttemptOutcome, FREE_INTERRUPTIONS_MAX, Settlement, StartMark};
use crate::core::reference::bounded;
use crate::error::Result;
use crate::record::{Cause, NodeId, cut_error};
use crate::store::redis::encode::{Call, CallContext, add_text, us};
use crate::store::redis::keys::BucketKeys;
use crate::store::redis::leases::add_mark;
use crate::store::redis::record;
use crate::store::redis::scripts;
use crate::time::DELAY_MAX;

/// The bytes of an ack: the event's id, when it was fetched and when it was started.
const ACK_LEN: usize = 32;

impl CallContext<'_> {
    /// Ends attempts. `damaged` is added to each cause: 0, or [`DAMAGED`](record::DAMAGED).
    pub(super) fn settle(
        &self,
        keys: &BucketKeys,
        node: NodeId,
        settlements: &[Settlement],
        started: StartMark,
        damaged: u8,
    ) -> Result<Call> {
        bounded("settlements", settlements.len())?;
        let mut call = self.ending(&scripts::SETTLE, keys);
        call.command
            .arg(&node.0.to_be_bytes())
            .arg(self.origin)
            .arg(us(DELAY_MAX));
        add_mark(&mut call.command, started);
        let (command, has_twins) = (&mut call.command, has_twins(settlements));
        for run in runs(settlements) {
            let first = &run[0]; // a run is never empty
            if has_twins || !is_ack(first) {
                for settlement in run {
                    command.arg(0);
                    add_any(command, settlement, damaged);
                }
                continue;
            }
            add_acks(command, run);
        }
        Ok(call)
    }
}

/// Adds acks under one request.
fn add_acks(command: &mut Cmd, acks: &[Settlement]) {
    let mut said = Vec::with_capacity(ACK_LEN * acks.len());
    for ack in acks {
        said.extend_from_slice(&ack.id.to_bytes());
        said.extend_from_slice(&ack.fetched_us.to_be_bytes());
        said.extend_from_slice(&ack.started_us.to_be_bytes());
    }
    let request = acks[0].request.to_be_bytes(); // a chunk is never empty
    command.arg(acks.len()).arg(&request).arg(said);
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
    command.arg(&settlement.id.to_bytes()).arg(&said);
    let error = error.map(|error| cut_error(error.to_owned()));
    add_text(command, error.as_deref());
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
