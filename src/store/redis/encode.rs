//! Encoding of store operations into script calls.

use std::time::Duration;

use redis::Cmd;

use crate::core::op::{BATCH_MAX, CROWD, CROWD_SPAN, Fetch, NewEvent, StoreOp};
use crate::core::reference::{
    DedupWindow, FORGET_MAX, ID_AHEAD_MAX, bounded, check_by, check_spans,
};
use crate::error::{Error, Result};
use crate::event::{EventId, LatePolicy};
use crate::store::redis::admit::checked;
use crate::store::redis::keys::BucketKeys;
use crate::store::redis::page;
use crate::store::redis::scripts::{self, Script};
use crate::time::DELAY_MAX;

/// A script with its keys and arguments.
pub(super) struct Call {
    pub(super) script: &'static Script,
    pub(super) command: Cmd,
}

/// Arguments that calls share.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallContext<'a> {
    /// The time in microseconds, for tests; otherwise the server's clock is used.
    pub(super) now_us: Option<u64>,
    /// The time of this process, and where buckets share a clock the offset of that from it, in
    /// microseconds.
    pub(super) mono_us: u64,
    pub(super) offset_us: Option<i64>,
    /// The dedup window of a bucket.
    pub(super) window: DedupWindow,
    /// How many records its outbox keeps before the oldest are dropped.
    pub(super) records_max: u64,
    /// How many may wait before pushes are refused; `None`: unlimited.
    pub(super) waiting_max: Option<u64>,
    /// Whether functions are called, and not scripts.
    pub(super) calls_functions: bool,
    /// The calling process, which is not notified.
    pub(super) origin: &'a str,
}

impl CallContext<'_> {
    pub(super) fn call(&self, script: &'static Script, keys: &BucketKeys) -> Call {
        let mut command = script.call(self.calls_functions, keys.of(script.parts()));
        let offset_us = keys.clock.offset().or(self.offset_us);
        let expected_us = offset_us.map(|offset| self.mono_us.saturating_add_signed(offset));
        match (self.now_us, expected_us) {
            (Some(now_us), _) => command.arg(now_us),
            (None, Some(expected_us)) => command.arg(-expected_us.cast_signed()),
            (None, None) => command.arg(""),
        };
        Call { script, command }
    }

    /// Starts the call of a script that can end events.
    pub(super) fn ending(&self, script: &'static Script, keys: &BucketKeys) -> Call {
        let mut call = self.call(script, keys);
        let DedupWindow {
            keep_for,
            max,
            cap,
            max_age,
        } = self.window;
        let (keep_us, max_age_us) = (us(keep_for), us(max_age));
        let ahead_ms = ID_AHEAD_MAX.as_millis();
        let window = format!("{max} {cap} {keep_us} {max_age_us} {FORGET_MAX} {ahead_ms}");
        call.command.arg(window).arg(self.records_max);
        call
    }

    /// Adds events, which were validated.
    pub(super) fn push<'e>(
        &self,
        keys: &BucketKeys,
        events: impl Iterator<Item = &'e NewEvent> + Clone,
    ) -> Call {
        let has_extras = |event: &NewEvent| {
            let envelope = &event.envelope;
            let expires = envelope.expires.is_some() || envelope.late != LatePolicy::Deliver;
            expires || envelope.key.is_some() || envelope.unique.is_some()
        };
        let script = if events.clone().any(has_extras) {
            &scripts::PUSH
        } else {
            &scripts::PUSH_PLAIN
        };
        let mut call = self.ending(script, keys);
        let mut ids: Vec<_> = events.clone().map(|event| event.envelope.id).collect();
        ids.sort_unstable();
        let made = |id: Option<&EventId>| id.map_or(0, |id| id.created().as_millis());
        let (first, last) = (made(ids.first()), made(ids.last()));
        let has_twins = ids.windows(2).any(|pair| pair[0] == pair[1]);
        call.command
            .arg(self.origin)
            .arg(delay_max_ms())
            .arg(format!("{first} {last}"))
            .arg(u8::from(has_twins));
        match self.waiting_max {
            Some(max) => call.command.arg(max),
            None => call.command.arg(""),
        };
        page::add_events(&mut call.command, events, has_twins);
        call
    }

    /// Replaces the body of `id` by `new`, if it still begins with `read`, and is dead if required.
    pub(super) fn update(
        &self,
        keys: &BucketKeys,
        id: EventId,
        (read, new): (&[u8], &[u8]),
        by: Option<&str>,
        dead_only: bool,
    ) -> Call {
        let mut call = self.ending(&scripts::UPDATE, keys);
        call.command.arg(&id.to_bytes()).arg(read).arg(new);
        add_text(&mut call.command, by);
        call.command.arg(u8::from(dead_only));
        call
    }

    /// Replaces the body of a dead event and revives it.
    pub(super) fn edit_and_revive(
        &self,
        keys: &BucketKeys,
        id: EventId,
        (read, new): (&[u8], &[u8]),
        by: Option<&str>,
    ) -> Call {
        let mut call = self.ending(&scripts::EDIT_AND_REVIVE, keys);
        call.command.arg(&id.to_bytes()).arg(read).arg(new);
        add_text(&mut call.command, by);
        call.command.arg(self.origin);
        call
    }

    /// Reads at most `most` records after a number; stops after `enough` bytes.
    pub(super) fn outbox(&self, keys: &BucketKeys, after: u64, most: usize, enough: usize) -> Call {
        let mut call = self.call(&scripts::OUTBOX, keys);
        let after = after.min(EXACT_MAX);
        call.command.arg(after).arg(most).arg(enough);
        call
    }

    /// Drops records up to a number, if the entry `seen` still begins as it did.
    pub(super) fn trim(&self, keys: &BucketKeys, through: u64, seen: (u64, &[u8])) -> Call {
        let mut call = self.call(&scripts::TRIM, keys);
        let through = through.min(EXACT_MAX);
        call.command.arg(through).arg(seen.0).arg(seen.1);
        call
    }

    /// Ends what has expired, a bounded piece.
    pub(super) fn expire(&self, keys: &BucketKeys) -> Call {
        let mut call = self.ending(&scripts::EXPIRE, keys);
        call.command.arg(BATCH_MAX / 2);
        call
    }

    /// Looks events up.
    pub(super) fn look(&self, keys: &BucketKeys, ids: &[EventId]) -> Call {
        let mut call = self.call(&scripts::LOOK, keys);
        add_ids(&mut call.command, ids);
        call
    }

    /// Looks at a part of one structure of a bucket for damage, from `cursor` on, or at all of it.
    pub(super) fn check(
        &self,
        keys: &BucketKeys,
        (structure, cursor, most): (&str, &[u8], usize),
        repairs: bool,
        again: &[Vec<u8>],
    ) -> Call {
        let mut call = self.ending(&scripts::CHECK, keys);
        call.command.arg(self.origin).arg(BATCH_MAX);
        call.command.arg(structure).arg(cursor).arg(most);
        call.command.arg(u8::from(repairs));
        match self.now_us {
            Some(_) => call.command.arg(""), // a test clock that jumps proves no silence
            None => call.command.arg(us(UNHEARD_MAX)),
        };
        for entry in again {
            call.command.arg(entry);
        }
        call
    }

    /// Encodes any other operation: one call of one script.
    pub(super) fn operation(&self, keys: &BucketKeys, op: &StoreOp) -> Result<Call> {
        Ok(match op {
            StoreOp::MoveDue { limit, calls } => {
                let mut call = self.call(&scripts::MOVE_DUE, keys);
                call.command.arg((*limit).min(BATCH_MAX));
                call.command.arg(if *calls { self.origin } else { "" });
                call
            }
            StoreOp::Fetch(fetch) => self.fetch(keys, fetch),
            StoreOp::Heartbeat { .. }
            | StoreOp::Reconcile { .. }
            | StoreOp::Extend { .. }
            | StoreOp::Reap { .. } => self.leases(keys, op)?,
            StoreOp::Cancel { id } => {
                let mut call = self.ending(&scripts::CANCEL, keys);
                call.command.arg(&id.to_bytes());
                call
            }
            StoreOp::Reschedule { id, when: due } => {
                checked(*due)?;
                let mut call = self.call(&scripts::RESCHEDULE, keys);
                call.command
                    .arg(self.origin)
                    .arg(delay_max_ms())
                    .arg(&id.to_bytes())
                    .arg(page::when(*due));
                call
            }
            StoreOp::Stats => self.call(&scripts::STATS, keys),
            StoreOp::Forecast { within } => {
                check_spans(within)?;
                let mut call = self.call(&scripts::FORECAST, keys);
                for span in within {
                    call.command.arg(us_down(*span));
                }
                call
            }
            StoreOp::Get { id } => self.look(keys, &[*id]),
            StoreOp::Peek { by, from, limit } => self.peek(keys, by, from.as_ref(), *limit),
            StoreOp::ReadDead { after, limit } => {
                let mut call = self.call(&scripts::READ_DEAD, keys);
                let after = after.map(EventId::to_bytes);
                let after = after.as_ref().map_or(&[][..], |id| &id[..]);
                call.command.arg(after).arg((*limit).clamp(1, BATCH_MAX));
                call
            }
            StoreOp::Push(_)
            | StoreOp::Settle { .. }
            | StoreOp::Update { .. }
            | StoreOp::Rewrite(_)
            | StoreOp::Revive { .. }
            | StoreOp::EditAndRevive(_)
            | StoreOp::Drop { .. } => {
                return Err(Error::invalid("the operation takes more than one call"));
            }
        })
    }

    fn fetch(&self, keys: &BucketKeys, fetch: &Fetch) -> Call {
        let mut call = self.ending(&scripts::FETCH, keys);
        call.command
            .arg(&fetch.node.0.to_be_bytes())
            .arg(fetch.request)
            .arg(&fetch.request.to_be_bytes())
            .arg(fetch.limit.min(BATCH_MAX))
            .arg(us_down(fetch.ahead))
            .arg(fetch.ahead_limit.min(BATCH_MAX));
        match fetch.hold {
            Some(hold) => call.command.arg(us(hold)),
            None => call.command.arg(""),
        };
        call.command
            .arg(fetch.starts.min(BATCH_MAX))
            .arg(CROWD)
            .arg(u64::try_from(CROWD_SPAN.as_millis()).unwrap_or(u64::MAX));
        call
    }

    /// Revives dead events.
    pub(super) fn revive(
        &self,
        keys: &BucketKeys,
        ids: &[EventId],
        by: Option<&str>,
    ) -> Result<Call> {
        let mut call = self.ending(&scripts::REVIVE, keys);
        call.command.arg(self.origin);
        of_dead(call, ids, by)
    }

    /// Deletes dead events.
    pub(super) fn drop(
        &self,
        keys: &BucketKeys,
        ids: &[EventId],
        by: Option<&str>,
    ) -> Result<Call> {
        of_dead(self.ending(&scripts::DROP, keys), ids, by)
    }
}

/// Adds dead events and the actor to a call.
fn of_dead(mut call: Call, ids: &[EventId], by: Option<&str>) -> Result<Call> {
    bounded("ids", ids.len())?;
    check_by(by)?;
    add_text(&mut call.command, by);
    add_ids(&mut call.command, ids);
    Ok(call)
}

/// Adds an optional text.
pub(super) fn add_text(command: &mut Cmd, text: Option<&str>) {
    match text {
        Some(text) => command.arg(format!("={text}")),
        None => command.arg(""),
    };
}

fn add_ids(command: &mut Cmd, ids: &[EventId]) {
    for id in ids {
        command.arg(&id.to_bytes());
    }
}

/// A check reports nodes that hold leases and have been silent for this long: they are dead and
/// no node has noticed, or they do not know their leases.
const UNHEARD_MAX: Duration = Duration::from_secs(60);

/// Beyond this a script's numbers are not exact.
pub(super) const EXACT_MAX: u64 = 1 << 52;

/// Converts to whole microseconds, rounded up so that nothing is early.
pub(super) fn us(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).map_or(EXACT_MAX, |us| us.min(EXACT_MAX))
}

fn us_down(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).map_or(EXACT_MAX, |us| us.min(EXACT_MAX))
}

fn delay_max_ms() -> u128 {
    DELAY_MAX.as_millis()
}

/// Whether an operation changes nothing.
pub(super) fn only_reads(op: &StoreOp) -> bool {
    matches!(
        op,
        StoreOp::Get { .. }
            | StoreOp::Peek { .. }
            | StoreOp::ReadDead { .. }
            | StoreOp::Stats
            | StoreOp::Forecast { .. }
    )
}
