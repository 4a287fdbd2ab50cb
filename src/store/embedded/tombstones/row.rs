//! A row of tombstones, as bytes.

use rusqlite::{Connection, params};

use crate::core::engine::{LastSettlement, Tombstone};
use crate::event::{BucketId, BucketKey, EventId, QueueName, State};
use crate::record::NodeId;
use crate::sqlite::Sum;
use crate::store::embedded::rows::ms;
use crate::time::Timestamp;

/// The most tombstones of a row, so that none is read or written at once for long.
pub(super) const ROW_MAX: usize = 4_096;
/// The bytes of a tombstone: see [`encode`].
const BYTES: usize = 61;
/// The length of a name that stands for all buckets.
const ALL_BUCKETS: u16 = 0;

/// What a transaction writes, taken over when it is committed.
#[derive(Debug, Default)]
pub(in crate::store::embedded) struct WindowWrites {
    pub(super) groups: Vec<Group>,
    pub(super) dropped: Vec<(BucketKey, usize)>,
    pub(super) removed: usize,
    /// Buckets whose windows are forgotten.
    pub(super) unused: Vec<BucketKey>,
    /// The watermark of every bucket as it was, from a clock that was ahead, and as it is now.
    pub(in crate::store::embedded) lowered: Option<(Timestamp, Timestamp)>,
    /// The watermark of every bucket that is in the place of theirs.
    pub(in crate::store::embedded) raised: Option<Timestamp>,
    /// The bytes that were written.
    pub(in crate::store::embedded) bytes: usize,
}

/// What a row says of one bucket.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) row: i64,
    pub(super) bucket: Option<BucketKey>,
    pub(super) first: u64,
    pub(super) many: usize,
    pub(super) drops: Option<Drops>,
}

/// What was dropped of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drops {
    /// The number of the oldest tombstone that is left.
    pub(super) left: u64,
    /// The watermark.
    pub(super) until: Option<Timestamp>,
    /// The one of ids whose time was still to come; a row has it where there is one.
    pub(super) ahead: Option<Timestamp>,
}

/// Passes each row to `each`, the oldest first: its number, and what it says if it is whole.
pub(super) fn each_row(
    connection: &Connection,
    mut each: impl FnMut(i64, Option<Vec<ReadGroup>>),
) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare("SELECT number, written, body, sum FROM tombstones ORDER BY 1")?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let number: i64 = row.get(0)?;
        let groups = row.get_ref(2)?.as_blob().ok().and_then(|body| {
            let is_whole = row.get(3) == Ok(sum(number, row.get(1).ok()?, body));
            is_whole.then(|| decode(body)).flatten()
        });
        each(number, groups);
    }
    Ok(())
}

/// A row that is being written.
pub(super) struct Row {
    pub(super) number: i64,
    pub(super) body: Vec<u8>,
    pub(super) many: usize,
}

impl Row {
    pub(super) fn new(number: i64) -> Self {
        Self {
            number,
            body: Vec::new(),
            many: 0,
        }
    }

    /// Adds what there is to say of a bucket, whose first tombstone here has the number `first`.
    /// Returns how many it adds.
    pub(super) fn add<'a>(
        &mut self,
        (bucket, first): (Option<&BucketKey>, u64),
        drops: Option<Drops>,
        tombstones: impl Iterator<Item = &'a Tombstone>,
        written: &mut WindowWrites,
    ) -> usize {
        let body = &mut self.body;
        match bucket {
            Some(bucket) => {
                let name = bucket.queue.as_bytes();
                // The longest name of a queue is far shorter.
                body.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
                body.extend(name);
                body.extend(bucket.bucket.0.to_le_bytes());
            }
            None => body.extend(ALL_BUCKETS.to_le_bytes()),
        }
        let until = drops.and_then(|drops| drops.until);
        let ahead = drops.and_then(|drops| drops.ahead);
        let flags = [drops.is_some(), until.is_some(), ahead.is_some()].map(u8::from);
        body.push(flags[0] | flags[1] << 1 | flags[2] << 2);
        body.extend(drops.map_or(0, |drops| drops.left).to_le_bytes());
        body.extend(until.unwrap_or_default().as_millis().to_le_bytes());
        if let Some(ahead) = ahead {
            body.extend(ahead.as_millis().to_le_bytes());
        }
        body.extend(first.to_le_bytes());
        let count_at = body.len();
        body.extend([0; 4]);
        let mut many = 0_u32;
        for tombstone in tombstones {
            encode(tombstone, body);
            many += 1;
        }
        if let Some(count) = body.get_mut(count_at..count_at + 4) {
            count.copy_from_slice(&many.to_le_bytes());
        }
        let many = many as usize;
        self.many += many;
        written.groups.push(Group {
            row: self.number,
            bucket: bucket.cloned(),
            first,
            many,
            drops,
        });
        many
    }

    pub(super) fn insert(
        self,
        connection: &Connection,
        now: Timestamp,
        written: &mut WindowWrites,
    ) -> rusqlite::Result<()> {
        let sum = sum(self.number, ms(now), &self.body);
        written.bytes += self.body.len();
        connection
            .prepare_cached("INSERT INTO tombstones VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![self.number, ms(now), self.body, sum])?;
        Ok(())
    }
}

fn sum(number: i64, written: i64, body: &[u8]) -> i64 {
    Sum::default()
        .number(number)
        .number(written)
        .bytes(body)
        .digest()
}

/// Appends a tombstone: id, fingerprint, due time, end, attempts, state, what is known, and the
/// settlement.
fn encode(tombstone: &Tombstone, body: &mut Vec<u8>) {
    let state = match tombstone.state {
        State::Cancelled => 1,
        State::Expired => 2,
        State::Discarded => 3,
        _ => 0_u8,
    };
    let known = u8::from(tombstone.fingerprint.is_some())
        | u8::from(tombstone.maybe_running) << 1
        | u8::from(tombstone.settled.is_some()) << 2;
    let (node, request, verdict) = tombstone.settled.map_or((0, 0, 0), |settled| {
        (settled.node.0, settled.request, settled.verdict)
    });
    body.extend(tombstone.id.to_bytes());
    body.extend(tombstone.fingerprint.unwrap_or(0).to_le_bytes());
    body.extend(tombstone.due.as_millis().to_le_bytes());
    body.extend(tombstone.ended_us.to_le_bytes());
    body.extend(tombstone.tries.to_le_bytes());
    body.extend([state, known]);
    body.extend(node.to_le_bytes());
    body.extend(request.to_le_bytes());
    body.push(verdict);
}

/// What a row says of a bucket, as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadGroup {
    pub(super) bucket: Option<BucketKey>,
    pub(super) drops: Option<Drops>,
    pub(super) first: u64,
    pub(super) tombstones: Vec<Tombstone>,
}

/// Reads a row; `None` if it is none.
fn decode(body: &[u8]) -> Option<Vec<ReadGroup>> {
    let mut reader = Bytes(body);
    let mut groups = Vec::new();
    while !reader.0.is_empty() {
        let bucket = match u16::from_le_bytes(reader.take()?) {
            ALL_BUCKETS => None,
            len => {
                let (name, rest) = reader.0.split_at_checked(len.into())?;
                reader.0 = rest;
                let queue = QueueName::new(std::str::from_utf8(name).ok()?).ok()?;
                let bucket = BucketId(u16::from_le_bytes(reader.take()?));
                Some(BucketKey::new(queue, bucket))
            }
        };
        let [known] = reader.take()?;
        let left = reader.number()?;
        let until = Timestamp::from_millis(reader.number()?);
        let ahead = match known & 4 {
            0 => None,
            _ => Some(Timestamp::from_millis(reader.number()?)),
        };
        let drops = Drops {
            left,
            until: (known & 2 != 0).then_some(until),
            ahead,
        };
        let first = reader.number()?;
        let many = u32::from_le_bytes(reader.take()?) as usize;
        if many > reader.0.len() / BYTES {
            return None;
        }
        let mut tombstones = Vec::with_capacity(many);
        for _ in 0..many {
            tombstones.push(reader.tombstone()?);
        }
        groups.push(ReadGroup {
            bucket,
            drops: (known & 1 != 0).then_some(drops),
            // Far from the end: a test of hostile files adds to it.
            first: first.min(u64::MAX / 2),
            tombstones,
        });
    }
    Some(groups)
}

/// What is still to be read.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn tombstone(&mut self) -> Option<Tombstone> {
        let id = EventId::from_bytes(self.take()?);
        let fingerprint = self.number()?;
        let due = Timestamp::from_millis(self.number()?);
        let ended_us = self.number()?;
        let tries = u16::from_le_bytes(self.take()?);
        let [state, known] = self.take()?;
        let (node, request) = (NodeId(self.number()?), self.number()?);
        let [verdict] = self.take()?;
        let settled = LastSettlement {
            node,
            request,
            verdict,
        };
        Some(Tombstone {
            id,
            state: match state {
                0 => State::Done,
                1 => State::Cancelled,
                2 => State::Expired,
                3 => State::Discarded,
                _ => return None,
            },
            fingerprint: (known & 1 != 0).then_some(fingerprint),
            due,
            tries,
            maybe_running: known & 2 != 0,
            settled: (known & 4 != 0).then_some(settled),
            ended_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_is_read_as_it_was_written() {
        let whole = Tombstone {
            id: EventId::from_bytes([7; 16]),
            state: State::Expired,
            fingerprint: Some(u64::MAX),
            due: Timestamp::from_millis(1 << 50),
            tries: u16::MAX,
            maybe_running: true,
            settled: Some(LastSettlement {
                node: NodeId(u64::MAX - 1),
                request: 1 << 60,
                verdict: 6,
            }),
            ended_us: 1 << 55,
        };
        let least = Tombstone {
            state: State::Done,
            fingerprint: None,
            maybe_running: false,
            settled: None,
            ..whole
        };
        let (mut row, mut written) = (Row::new(1), WindowWrites::default());
        let queue = QueueName::new("orders").unwrap();
        let bucket = BucketKey::new(queue, BucketId(9));
        let drops = Some(Drops {
            left: 3,
            until: Some(Timestamp::from_millis(5)),
            ahead: Some(Timestamp::from_millis(7)),
        });
        let of_bucket = (Some(&bucket), 7);
        row.add(of_bucket, drops, [whole, least].iter(), &mut written);
        row.add((None, 0), None, [].iter(), &mut written);
        let found = decode(&row.body).unwrap();
        let expected = [
            ReadGroup {
                bucket: Some(bucket),
                drops,
                first: 7,
                tombstones: vec![whole, least],
            },
            ReadGroup {
                bucket: None,
                drops: None,
                first: 0,
                tombstones: Vec::new(),
            },
        ];
        assert_eq!(found, expected);
        for len in 1..row.body.len() {
            let cut = decode(&row.body[..len]);
            assert!(cut.is_none_or(|cut| cut.len() < 2), "{len}");
        }
    }
}
