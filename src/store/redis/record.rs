//! Records as they lie in a bucket's outbox.
//!
//! One entry of the stream holds all records that one call wrote; the first part of its id is the
//! number of the first of them. A record, numbers big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 16 | event id |
//! | 1 | outcome: 1 acked, 2 retried, 3 snoozed, 4 buried, 5 discarded, 6 cancelled, 7 expired, 8 lease lost |
//! | 1 | cause: 0 none, 1 failed, 2 timed out, 3 panicked, 4 undecodable, 5 interrupted, 6 lease lost, 7 too late |
//! | 2 | attempt |
//! | 8 | due, ms since the epoch |
//! | 32 | moved, fetched, started, finished: 8 each, us since the epoch |
//! | 8 | node |
//! | 2 + .. | key: its length plus 1, or 0 where there is none, and its text |
//! | 2 + .. | error: likewise |

use crate::error::{Error, Result};
use crate::event::{EventId, QueueName};
use crate::record::{Cause, NodeId, Outcome, Record, Stages};
use crate::time::Timestamp;

/// The byte of a cause.
pub(super) fn cause_byte(cause: Cause) -> u8 {
    let at = Cause::ALL.iter().position(|known| *known == cause);
    at.map_or(0, |at| at as u8 + 1) // a handful
}

/// The records of one entry, in their order.
pub(super) fn read_entry(queue: &QueueName, mut bytes: &[u8]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let record = read(queue, &mut bytes);
        records.push(record.ok_or_else(|| {
            Error::corrupt(format!(
                "an entry of the outbox of queue {queue} is damaged"
            ))
        })?);
    }
    Ok(records)
}

fn read(queue: &QueueName, bytes: &mut &[u8]) -> Option<Record> {
    let id = EventId::from_bytes(array(bytes)?);
    let [outcome, cause] = array(bytes)?;
    let attempt = u16::from_be_bytes(array(bytes)?);
    let due = Timestamp::from_millis(number(bytes)?);
    let stages = Stages {
        moved_us: number(bytes)?,
        fetched_us: number(bytes)?,
        started_us: number(bytes)?,
        finished_us: number(bytes)?,
    };
    let node = NodeId(number(bytes)?);
    let (key, error) = (text(bytes)?, text(bytes)?);
    Some(Record {
        id,
        queue: queue.clone(),
        key,
        attempt,
        outcome: *Outcome::ALL.get(usize::from(outcome).checked_sub(1)?)?,
        cause: match cause {
            0 => None,
            cause => Some(*Cause::ALL.get(usize::from(cause) - 1)?),
        },
        due,
        stages,
        node,
        error,
        trace: None,
        payload: None,
        by: None,
    })
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*array)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(array(bytes)?))
}

fn text(bytes: &mut &[u8]) -> Option<Option<String>> {
    let Some(len) = u16::from_be_bytes(array(bytes)?).checked_sub(1) else {
        return Some(None);
    };
    let (text, rest) = bytes.split_at_checked(usize::from(len))?;
    *bytes = rest;
    Some(Some(String::from_utf8(text.to_vec()).ok()?))
}
