//! One step of a check of a bucket.

use std::time::Duration;

use crate::core::op::BATCH_MAX;
use crate::store::redis::script::call::{Call, CallContext, us};
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::table::script;

/// A check reports nodes that hold leases and have been silent for this long: they are dead and
/// no node has noticed, or they do not know their leases.
const SILENCE_MAX: Duration = Duration::from_secs(60);

script! {
    /// Looks at a part of one structure for damage, or at a whole bucket, and repairs it on request.
    CHECK = "check", DRAINS, Ending,
        ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "nodes", "take_back"];
    CheckArguments<'a> {
        /// The calling process, which is not notified.
        origin: &'a str,
        /// The most leases to take back.
        take_max: usize,
        /// A structure, as one of `parts` in the script.
        structure: &'a str,
        /// 0 at first.
        cursor: &'a [u8],
        /// About how many entries to look at; of "counts" and "whole" the limit beyond which they
        /// look at nothing.
        limit: usize,
        repairs: bool,
        /// How long, us, a node with leases may have been silent; otherwise any time.
        silence_max: Option<u64>,
    }
    each Missing<'a> {
        /// For "again": an entry of the ready list that was not found there.
        entry: &'a [u8],
    }
    reply CheckReply {
        now: u64,
        /// The next cursor, 0 after the last.
        cursor: Vec<u8>,
        looked: u64,
        /// Three for each: kind; id or ""; words.
        damage: ReplyReader,
        /// Entries that the ready list must have.
        listed: ReplyReader,
    }
}

/// Looks at a part of one structure of a bucket for damage, from `cursor` on, or at all of it.
pub(in crate::store::redis) fn call(
    context: &CallContext<'_>,
    (structure, cursor, limit): (&str, &[u8], usize),
    repairs: bool,
    again: &[Vec<u8>],
) -> Call {
    let arguments = CheckArguments {
        origin: &context.origin,
        take_max: BATCH_MAX,
        structure,
        cursor,
        limit,
        repairs,
        // A test clock that jumps proves no silence.
        silence_max: context.now_us.is_none().then(|| us(SILENCE_MAX)),
    };
    let call = context.call(arguments);
    call.with_rows(again.iter().map(|entry| Missing { entry }))
}
