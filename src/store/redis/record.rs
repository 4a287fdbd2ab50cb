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
//! Acks of events that lie in one part of a page, which is nearly all of them, share what they have in
//! common:
//!
//! | bytes | field |
//! |---|---|
//! | 16 | due and moved |
//! | 1 | 0 |
//! | 2 | how many records |
//! | 8 | finished |
//! | 8 | node |
//! | 15 | name of the page, with which the ids begin |
//! | 17 each | place in the page, fetched, started |
//!
//! The lengths delimit a record whatever else is wrong with it, so that those after a damaged one
//! can be read.

use crate::event::{EventId, Payload, QueueName, TraceId};
use crate::record::{BY_BYTES_MAX, Cause, NodeId, Outcome, PAYLOAD_KEPT_MAX, Record, Stages};
use crate::time::Timestamp;

/// The byte of the outcome of an ack.
const ACKED: u8 = 1;
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
    let mut acks = None;
    std::iter::from_fn(move || {
        if acks.as_ref().is_none_or(Acks::is_empty) {
            if bytes.is_empty() {
                return None;
            }
            acks = Acks::next(&mut bytes);
        }
        let cut = match &mut acks {
            Some(acks) => acks.take(&mut bytes),
            None => RawRecord::next(&mut bytes),
        };
        if cut.is_none() {
            (bytes, acks) = (&[], None);
        }
        Some(cut.and_then(|cut| cut.read(queue)))
    })
}

/// What the records of acks that share it have in common.
struct Acks {
    due: u64,
    moved_us: u64,
    finished_us: u64,
    node: u64,
    page: [u8; 15],
    left: u16,
}

impl Acks {
    fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Splits off what comes before such records; nothing of any other record.
    fn next(bytes: &mut &[u8]) -> Option<Self> {
        let mut rest = *bytes;
        let (due, moved_us) = (number(&mut rest)?, number(&mut rest)?);
        let [0] = array(&mut rest)? else {
            return None;
        };
        let acks = Self {
            due,
            moved_us,
            left: u16::from_be_bytes(array(&mut rest)?),
            finished_us: number(&mut rest)?,
            node: number(&mut rest)?,
            page: array(&mut rest)?,
        };
        (acks.left > 0).then(|| *bytes = rest)?;
        Some(acks)
    }

    /// Splits off the next record.
    fn take<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<RawRecord<'a>> {
        self.left = self.left.checked_sub(1)?;
        let [place] = array(bytes)?;
        let (fetched_us, started_us) = (number(bytes)?, number(bytes)?);
        Some(RawRecord {
            id: EventId::in_run(self.page, place).to_bytes(),
            kinds: [ACKED, 0],
            attempt: [0, 1],
            due: self.due,
            stages: [self.moved_us, fetched_us, started_us, self.finished_us],
            node: self.node,
            key: None,
            error: None,
            flags: 0,
            trace: None,
            payload: None,
            by: None,
        })
    }
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
