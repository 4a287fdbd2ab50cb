//! A decoded reply, and what several operations reply.

use std::sync::Arc;

use crate::codec::body;
use crate::core::op::{ChangeOutcome, Reply, Response, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Envelope, EventId, QueueName, State};
use crate::record::NodeId;
use crate::store::redis::script::reader::{ReplyReader, number_at, unreadable};
use crate::time::Timestamp;

/// A decoded reply.
#[derive(Debug)]
pub struct DecodedReply {
    /// The answer itself.
    pub response: Response,
    /// Whether the call brought work that was not known before.
    pub is_earlier: bool,
    /// Whether it wrote records; rarely true although it did not.
    pub has_recorded: bool,
    /// How many events it left to a newer duly.
    pub newer: usize,
    /// Leased events that cannot be delivered because their bytes are damaged.
    pub damaged: Vec<(EventId, Error)>,
}

impl DecodedReply {
    /// The reply of an operation that brought no work and wrote no record.
    pub(super) fn new(now_us: u64, reply: Reply) -> Self {
        Self {
            response: Response { now_us, reply },
            is_earlier: false,
            has_recorded: false,
            newer: 0,
            damaged: Vec::new(),
        }
    }
}

/// The minimum length of an event's state, and the length of a leased one; `lua/state.lua`
/// describes its bytes.
const STATE_LEN: usize = 45;
const LEASED_LEN: usize = 71;

/// Decodes the result of a change; `None` when a concurrent change came first and it must be
/// retried.
pub(super) fn changed(what: &[u8], due_ms: u64) -> Result<Option<ChangeOutcome>> {
    let due = Timestamp::from_millis(due_ms);
    Ok(Some(match what {
        b"changed" => ChangeOutcome::Changed(due),
        b"after" => ChangeOutcome::ChangedAfterAttempt(due),
        b"again" => return Ok(None),
        b"" => ChangeOutcome::NotFound,
        [kind] => ChangeOutcome::TooLate(state(*kind)?),
        _ => return Err(unreadable("update")),
    }))
}

pub(super) fn is_changed(change: &ChangeOutcome) -> bool {
    use ChangeOutcome::{Changed, ChangedAfterAttempt};
    matches!(change, Changed(_) | ChangedAfterAttempt(_))
}

/// Fails where the reply to a call that was sent again says that not all was changed: what is missing
/// may have been changed by the first one, whose reply was lost.
pub(super) fn check_repeat(is_repeat: bool, is_done: bool) -> Result<()> {
    if is_repeat && !is_done {
        let words = "the connection was lost and the call sent again; what it found unchanged may \
                     have been changed before";
        return Err(Error::new(ErrorKind::Unknown, words));
    }
    Ok(())
}

/// Decodes the events of a page. A damaged one has no body, and the others are still read.
pub(super) fn page(queue: &QueueName, mut parts: ReplyReader) -> Result<Vec<Snapshot>> {
    let mut events = Vec::new();
    while !parts.is_empty() {
        let id = parts.id()?;
        let decode = |bytes: &[u8]| Ok(body::decode(id, queue, bytes).ok());
        events.extend(snapshot(id, &mut parts, decode)?);
    }
    Ok(events)
}

/// Decodes the fields that the script's `look_up` returns for an event.
pub(super) fn snapshot(
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
                ended: None,
                holder: None,
                request: None,
                until: None,
                done_by: None,
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
    let time_at = |at| Timestamp::from_millis(number_at(&packed, at) / 1_000);
    let ended = (state == State::Scheduled).then(|| time_at(12));
    Ok(Some(Snapshot {
        id,
        state,
        due: match (state, due) {
            (State::Scheduled, Some(due)) => due,
            _ => Timestamp::from_millis(number_at(&packed, 4)),
        },
        tries: u16::from_be_bytes([packed[2], packed[3]]).saturating_sub(1),
        since: since_at.map(time_at),
        ended: ended.filter(|ended| ended.as_millis() > 0),
        holder: is_leased.then(|| NodeId(number_at(&packed, 45))),
        request: is_leased.then(|| number_at(&packed, 53)),
        until: deadline.filter(|_| is_leased),
        done_by: (state == State::Done)
            .then(|| (NodeId(number_at(&packed, 28)), number_at(&packed, 36)))
            .filter(|(node, _)| node.0 > 0),
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
