//! The encoding of records in a bucket's outbox.
//!
//! A stream entry holds the records of one call; the first part of its id is the number of the
//! first record. A record, numbers big-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 16 | event id |
//! | 1 | outcome: 1 acked, 2 retried, 3 snoozed, 4 buried, 5 discarded, 6 cancelled, 7 expired, 8 lease lost, 9 revived, 10 edited, 11 dropped, 12 interrupted |
//! | 1 | cause: 0 none, 1 failed, 2 timed out, 3 panicked, 4 undecodable, 5 interrupted, 6 lease lost, 7 too late, 8 undecryptable; plus 128 where more follows at the end |
//! | 2 | attempt |
//! | 8 | due, ms since the epoch |
//! | 32 | moved, fetched, started, finished: 8 each, us since the epoch |
//! | 8 | node |
//! | 2 + .. | key: its length plus 1, or 0 where there is none, and its text |
//! | 2 + .. | error: likewise |
//! | 1 | only where more follows: 1 trace, 2 payload, 4 actor; at least one of them |
//! | 16 | trace; only with 1 |
//! | 4 + .. | payload: its length and its bytes, at most 64 KiB; only with 2 |
//! | 2 + .. | actor: its length and its text; only with 4 |
//!
//! The lengths delimit a record whatever else is wrong with it, so that those after a damaged one
//! can be read.

use crate::event::{EventId, Payload, QueueName, TraceId};
use crate::record::{BY_BYTES_MAX, Cause, NodeId, Outcome, PAYLOAD_KEPT_MAX, Record, Stages};
use crate::time::Timestamp;

/// Set in the byte of a cause when extras follow.
const MORE: u8 = 128;
const TRACE: u8 = 1;
const PAYLOAD: u8 = 2;
const BY: u8 = 4;

/// Added to the cause of a settlement when the body is damaged: its record has no extras.
pub(super) const DAMAGED: u8 = 128;

/// Encodes a cause.
pub(super) fn cause_byte(cause: Cause) -> u8 {
    let at = Cause::ALL.iter().position(|known| *known == cause);
    at.map_or(0, |at| at as u8 + 1) // a handful
}

/// Decodes the records of one entry, in order; `None` for a damaged one. If a record's length is
/// unreadable, it is the last.
pub fn of_entry<'a>(
    queue: &'a QueueName,
    mut bytes: &'a [u8],
) -> impl Iterator<Item = Option<Record>> + 'a {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let cut = RawRecord::next(&mut bytes);
        if cut.is_none() {
            bytes = &[];
        }
        Some(cut.and_then(|cut| cut.read(queue)))
    })
}

/// A record split into its fields, not yet validated.
struct RawRecord<'a> {
    id: [u8; 16],
    kinds: [u8; 2],
    attempt: [u8; 2],
    due: u64,
    stages: [u64; 4],
    node: u64,
    key: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
    flags: u8,
    trace: Option<[u8; 16]>,
    payload: Option<&'a [u8]>,
    by: Option<&'a [u8]>,
}

impl<'a> RawRecord<'a> {
    /// Splits off the first record.
    fn next(bytes: &mut &'a [u8]) -> Option<Self> {
        let mut cut = Self {
            id: array(bytes)?,
            kinds: array(bytes)?,
            attempt: array(bytes)?,
            due: number(bytes)?,
            stages: [
                number(bytes)?,
                number(bytes)?,
                number(bytes)?,
                number(bytes)?,
            ],
            node: number(bytes)?,
            key: text(bytes)?,
            error: text(bytes)?,
            flags: 0,
            trace: None,
            payload: None,
            by: None,
        };
        if cut.kinds[1] & MORE != 0 {
            [cut.flags] = array(bytes)?;
            if cut.flags & TRACE != 0 {
                cut.trace = Some(array(bytes)?);
            }
            if cut.flags & PAYLOAD != 0 {
                let len = u32::from_be_bytes(array(bytes)?);
                cut.payload = Some(take(bytes, len as usize)?);
            }
            if cut.flags & BY != 0 {
                let len = u16::from_be_bytes(array(bytes)?);
                cut.by = Some(take(bytes, usize::from(len))?);
            }
        }
        Some(cut)
    }

    /// Decodes the fields; `None` when no version of duly writes them.
    fn read(self, queue: &QueueName) -> Option<Record> {
        let ([outcome, cause], flags) = (self.kinds, self.flags);
        let has_more = cause & MORE != 0;
        let says_more = flags != 0 && flags & !(TRACE | PAYLOAD | BY) == 0;
        let is_short = self.payload.is_none_or(|it| it.len() <= PAYLOAD_KEPT_MAX)
            && self.by.is_none_or(|it| it.len() <= BY_BYTES_MAX);
        if has_more != says_more || !is_short {
            return None;
        }
        let [moved_us, fetched_us, started_us, finished_us] = self.stages;
        Some(Record {
            id: EventId::from_bytes(self.id),
            queue: queue.clone(),
            key: utf8(self.key)?,
            attempt: u16::from_be_bytes(self.attempt),
            outcome: *Outcome::ALL.get(usize::from(outcome).checked_sub(1)?)?,
            cause: match cause & !MORE {
                0 => None,
                cause => Some(*Cause::ALL.get(usize::from(cause) - 1)?),
            },
            due: Timestamp::from_millis(self.due),
            stages: Stages {
                moved_us,
                fetched_us,
                started_us,
                finished_us,
            },
            node: NodeId(self.node),
            error: utf8(self.error)?,
            trace: match self.trace {
                Some(trace) => Some(TraceId::from_bytes(trace)?),
                None => None,
            },
            payload: self.payload.map(Payload::from),
            by: utf8(self.by)?,
        })
    }
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*array)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(array(bytes)?))
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn text<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let Some(len) = u16::from_be_bytes(array(bytes)?).checked_sub(1) else {
        return Some(None);
    };
    take(bytes, usize::from(len)).map(Some)
}

/// Decodes a text; `None` when it is not UTF-8.
fn utf8(bytes: Option<&[u8]>) -> Option<Option<String>> {
    let text = bytes.map(|bytes| std::str::from_utf8(bytes).map(str::to_owned));
    text.transpose().ok()
}
