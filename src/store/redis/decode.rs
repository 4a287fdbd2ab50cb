//! Decoding of script replies.

use std::sync::Arc;

use redis::Value;

use crate::codec::body;
use crate::core::op::{
    Answer, Cancelled, Changed, DeadPage, Kept, Moved, PeekCursor, Peeked, Reply, SetAside,
    Snapshot, Stats, StoreOp,
};
use crate::error::{Error, Result};
use crate::event::{Envelope, EventId, QueueName, State};
use crate::record::NodeId;
use crate::store::redis::leases::{fetched, holding, reaped, set_aside, taken_back};
use crate::time::Timestamp;

/// A cursor over the elements of a script's reply.
#[derive(Debug)]
pub struct ReplyReader {
    script: &'static str,
    parts: std::vec::IntoIter<Value>,
}

impl ReplyReader {
    /// Opens the reply of `script`.
    pub fn of(script: &'static str, value: Value) -> Result<Self> {
        match value {
            Value::Array(parts) => Ok(Self {
                script,
                parts: parts.into_iter(),
            }),
            _ => Err(unreadable(script)),
        }
    }

    fn next(&mut self) -> Result<Value> {
        self.parts.next().ok_or_else(|| unreadable(self.script))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        match self.next()? {
            Value::Int(number) => u64::try_from(number).map_err(|_| unreadable(self.script)),
            _ => Err(unreadable(self.script)),
        }
    }

    pub(super) fn count(&mut self) -> Result<usize> {
        let number = self.number()?;
        usize::try_from(number).map_err(|_| unreadable(self.script))
    }

    pub(super) fn is_so(&mut self) -> Result<bool> {
        Ok(self.number()? != 0)
    }

    pub(super) fn time(&mut self) -> Result<Option<Timestamp>> {
        match self.next()? {
            Value::Nil | Value::Boolean(false) => Ok(None),
            Value::Int(ms) => u64::try_from(ms)
                .map(|ms| Some(Timestamp::from_millis(ms)))
                .map_err(|_| unreadable(self.script)),
            Value::Double(ms) => self.score(Some(ms)),
            Value::BulkString(text) => {
                let text = std::str::from_utf8(&text).ok();
                self.score(text.and_then(|text| text.parse().ok()))
            }
            _ => Err(unreadable(self.script)),
        }
    }

    /// Scores come as texts or floats; those of this store are whole, and none is negative.
    fn score(&self, ms: Option<f64>) -> Result<Option<Timestamp>> {
        match ms.filter(|ms| (0.0..SCORE_END).contains(ms)) {
            Some(ms) => Ok(Some(Timestamp::from_millis(ms as u64))),
            None => Err(unreadable(self.script)),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        self.optional()?.ok_or_else(|| unreadable(self.script))
    }

    pub(super) fn optional(&mut self) -> Result<Option<Vec<u8>>> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(Some(bytes)),
            Value::Nil | Value::Boolean(false) => Ok(None),
            _ => Err(unreadable(self.script)),
        }
    }

    pub(super) fn parts(&mut self) -> Result<Self> {
        let value = self.next()?;
        Self::of(self.script, value)
    }

    pub(super) fn node(&mut self) -> Result<NodeId> {
        let bytes = self.bytes()?;
        let bytes = bytes.try_into().map_err(|_| unreadable(self.script))?;
        Ok(NodeId(u64::from_be_bytes(bytes)))
    }

    pub(super) fn id(&mut self) -> Result<EventId> {
        let bytes = self.bytes()?;
        id_of(&bytes).ok_or_else(|| unreadable(self.script))
    }

    pub(super) fn flags(&mut self) -> Result<Vec<bool>> {
        Ok(self.bytes()?.into_iter().map(|flag| flag == b'1').collect())
    }
}

/// The bound up to which scores, which are floats, are exact.
const SCORE_END: f64 = (1_u64 << 53) as f64;

/// The minimum length of an event's state, and the length of a leased one; `lua/state.lua`
/// describes its bytes.
pub(super) const STATE_LEN: usize = 45;
const LEASED_LEN: usize = 71;

/// Returns the id with which `bytes` begin.
pub(super) fn id_of(bytes: &[u8]) -> Option<EventId> {
    bytes.first_chunk().copied().map(EventId::from_bytes)
}

/// A decoded reply.
#[derive(Debug)]
pub struct DecodedReply {
    /// The answer itself.
    pub answer: Answer,
    /// Whether the call brought work that was not known before.
    pub is_earlier: bool,
    /// Whether it wrote records; rarely true although it did not.
    pub has_recorded: bool,
    /// How many events it left to a newer duly.
    pub newer: usize,
    /// Leased events that cannot be delivered because their bytes are damaged.
    pub damaged: Vec<(EventId, Error)>,
}

/// Decodes the reply of an operation that takes one call.
pub fn read(queue: &QueueName, op: &StoreOp, mut parts: ReplyReader) -> Result<DecodedReply> {
    let now_us = parts.number()?;
    let (mut is_earlier, mut has_recorded, mut damaged) = (false, false, Vec::new());
    let mut newer = 0;
    let reply = match op {
        StoreOp::MoveDue { .. } => Reply::Moved(Moved {
            moved: parts.count()?,
            ready: parts.count()?,
            next_due: parts.time()?,
            aside: set_aside(&mut parts)?,
        }),
        StoreOp::Fetch(fetch) => {
            let fetched = fetched(queue, fetch, &mut parts, (&mut damaged, &mut newer))?;
            has_recorded = fetched.aside != SetAside::default();
            Reply::Fetched(fetched)
        }
        StoreOp::Heartbeat { .. } => Reply::Kept(Kept {
            stands: parts.is_so()?,
            holding: holding(&mut parts)?,
        }),
        StoreOp::Extend { .. } => Reply::Extended(parts.flags()?),
        StoreOp::Reap { .. } => {
            is_earlier = parts.is_so()?;
            let reaped = reaped(&mut parts)?;
            has_recorded = reaped.ready + reaped.dead > 0;
            Reply::Reaped(reaped)
        }
        StoreOp::Reconcile { .. } => {
            is_earlier = parts.is_so()?;
            let reaped = taken_back(&mut parts)?;
            has_recorded = reaped.ready + reaped.dead > 0;
            Reply::Reaped(reaped)
        }
        StoreOp::Cancel { .. } => {
            let cancelled = cancelled(&mut parts)?;
            has_recorded = !matches!(cancelled, Cancelled::NotFound | Cancelled::TooLate(_));
            // Perhaps by this call.
            has_recorded |= matches!(cancelled, Cancelled::TooLate(State::Expired));
            Reply::Cancelled(cancelled)
        }
        StoreOp::Reschedule { .. } => {
            is_earlier = parts.is_so()?;
            Reply::Rescheduled(changed(&mut parts)?)
        }
        StoreOp::Stats => Reply::Stats(Stats {
            scheduled: parts.count()?,
            ready: parts.count()?,
            leased: parts.count()?,
            dead: parts.count()?,
            oldest_ready: parts.time()?,
        }),
        StoreOp::Forecast { within } => {
            let counts = within.iter().map(|_| parts.count());
            Reply::Forecast(counts.collect::<Result<_>>()?)
        }
        StoreOp::Get { id } => {
            let decode = |bytes: &[u8]| body::decode(*id, queue, bytes).map(Some);
            Reply::Found(told(*id, &mut parts, decode)?)
        }
        StoreOp::Peek { .. } => {
            let (next, mut events) = (parts.optional()?.map(PeekCursor::new), Vec::new());
            while !parts.is_empty() {
                let event = paged(queue, &mut parts)?;
                events.extend(event.1.filter(|event| !event.state.is_final()));
            }
            Reply::Peeked(Peeked { events, next })
        }
        StoreOp::ReadDead { .. } => {
            let (next, mut letters) = (parts.optional()?, Vec::new());
            while !parts.is_empty() {
                let letter = paged(queue, &mut parts)?;
                letters.extend(letter.1.filter(|letter| letter.state == State::Dead));
            }
            Reply::Dead(DeadPage {
                letters,
                next: next.and_then(|next| id_of(&next)),
            })
        }
        StoreOp::Push(_)
        | StoreOp::Settle { .. }
        | StoreOp::Update { .. }
        | StoreOp::Rewrite(_)
        | StoreOp::Revive { .. }
        | StoreOp::EditAndRevive(_)
        | StoreOp::Drop { .. } => {
            return Err(unreadable("several calls"));
        }
    };
    Ok(DecodedReply {
        answer: Answer { now_us, reply },
        is_earlier,
        has_recorded,
        newer,
        damaged,
    })
}

fn cancelled(parts: &mut ReplyReader) -> Result<Cancelled> {
    Ok(match parts.bytes()?.as_slice() {
        b"cancelled" => Cancelled::Cancelled,
        b"after" => Cancelled::CancelledAfterAttempt,
        b"" => Cancelled::NotFound,
        [kind] => Cancelled::TooLate(state(*kind)?),
        _ => return Err(unreadable("cancel")),
    })
}

fn changed(parts: &mut ReplyReader) -> Result<Changed> {
    match updated(parts)? {
        Some(changed) => Ok(changed),
        None => Err(unreadable("reschedule")),
    }
}

/// Decodes the result of a change; `None` when a concurrent change came first and it must be
/// retried.
pub fn updated(parts: &mut ReplyReader) -> Result<Option<Changed>> {
    let (what, due_ms) = (parts.bytes()?, parts.number()?);
    let due = Timestamp::from_millis(due_ms);
    Ok(Some(match what.as_slice() {
        b"changed" => Changed::Changed(due),
        b"after" => Changed::ChangedAfterAttempt(due),
        b"again" => return Ok(None),
        b"" => Changed::NotFound,
        [kind] => Changed::TooLate(state(*kind)?),
        _ => return Err(unreadable("update")),
    }))
}

/// Decodes one event of a page. A damaged one has no body, and the others are still read.
fn paged(queue: &QueueName, parts: &mut ReplyReader) -> Result<(EventId, Option<Snapshot>)> {
    let id = parts.id()?;
    let decode = |bytes: &[u8]| Ok(body::decode(id, queue, bytes).ok());
    Ok((id, told(id, parts, decode)?))
}

/// Decodes the fields that the script's `look_up` returns for an event.
fn told(
    id: EventId,
    parts: &mut ReplyReader,
    decode: impl Fn(&[u8]) -> Result<Option<Envelope>>,
) -> Result<Option<Snapshot>> {
    let (packed, bytes) = (parts.optional()?, parts.optional()?);
    let (due, deadline) = (parts.time()?, parts.time()?);
    let decoded = |bytes: Option<Vec<u8>>| -> Result<Option<Arc<Envelope>>> {
        let envelope = bytes.map(|bytes| decode(&bytes)).transpose()?;
        Ok(envelope.flatten().map(Arc::new))
    };
    let Some(packed) = packed else {
        return Ok(match (bytes, due) {
            (Some(bytes), Some(due)) => Some(Snapshot {
                id,
                state: State::Scheduled,
                due,
                tries: 0,
                since: None,
                holder: None,
                request: None,
                until: None,
                body: decoded(Some(bytes))?,
            }),
            _ => None,
        });
    };
    if packed.len() < STATE_LEN {
        return Err(unreadable("look"));
    }
    let state = state(packed[0])?;
    let is_over = state.is_final();
    let is_leased = state == State::Leased && packed.len() >= LEASED_LEN;
    let since_at = match state {
        State::Ready | State::Dead => Some(12),
        State::Leased if is_leased => Some(61),
        _ => None,
    };
    Ok(Some(Snapshot {
        id,
        state,
        due: match (state, due) {
            (State::Scheduled, Some(due)) => due,
            _ => Timestamp::from_millis(number_at(&packed, 4)),
        },
        tries: u16::from_be_bytes([packed[2], packed[3]]).saturating_sub(1),
        since: since_at.map(|at| Timestamp::from_millis(number_at(&packed, at) / 1_000)),
        holder: is_leased.then(|| NodeId(number_at(&packed, 45))),
        request: is_leased.then(|| number_at(&packed, 53)),
        until: deadline.filter(|_| is_leased),
        body: if is_over { None } else { decoded(bytes)? },
    }))
}

pub(super) fn state(kind: u8) -> Result<State> {
    Ok(match kind {
        b'S' => State::Scheduled,
        b'R' => State::Ready,
        b'L' => State::Leased,
        b'D' => State::Dead,
        b'd' => State::Done,
        b'c' => State::Cancelled,
        b'e' => State::Expired,
        b'x' => State::Discarded,
        _ => return Err(unreadable("state")),
    })
}

/// Reads a big-endian number; every caller has checked the length.
pub(super) fn number_at(bytes: &[u8], at: usize) -> u64 {
    let number = bytes.get(at..).and_then(|rest| rest.first_chunk());
    number.map_or(0, |number| u64::from_be_bytes(*number))
}

/// The error for a reply that no version of the script returns.
pub fn unreadable(script: &str) -> Error {
    Error::corrupt(format!(
        "redis sent a reply that the script {script} never returns"
    ))
}
