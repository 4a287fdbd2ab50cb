//! Tombstones as rows: what the dedup window of each bucket holds, so that it is the same after a
//! restart, whatever records are kept.
//!
//! A transaction writes one row of all events that ended in it. A row goes when all of its
//! tombstones were dropped from their windows; a window drops the oldest first, so a count of each
//! row is enough. Rows that may go are removed by the next transaction: after a kill some
//! tombstones more are remembered, never fewer.

use std::collections::{BTreeMap, HashMap, VecDeque};

use rusqlite::{Connection, params};

use crate::core::reference::{LastSettlement, Tombstone};
use crate::event::{BucketId, BucketKey, EventId, QueueName, State};
use crate::record::{NodeId, Outcome};
use crate::sqlite::{Sum, records};
use crate::store::embedded::commit::ms;
use crate::store::embedded::ledger::Changes;
use crate::time::Timestamp;

/// The most tombstones of a row, so that none is read or written at once for long.
const ROW_MAX: usize = 4_096;
/// The most rows that one transaction removes.
const REMOVED_MAX: usize = 64;
/// How many of the last records are read for a file that has no tombstones.
const RECORDS_READ: i64 = 500_000;
/// The bytes of a tombstone: see [`encode`].
const BYTES: usize = 61;
/// The length of a name that stands for all buckets.
const ALL_BUCKETS: u16 = 0;

/// What an operation did to the dedup window of a bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct WindowChange {
    /// Which bucket; `None`: all of them, for a watermark.
    pub(super) bucket: Option<BucketKey>,
    /// The tombstones that were added, in order.
    pub(super) ended: Vec<Tombstone>,
    /// How many of the oldest were dropped.
    pub(super) dropped: usize,
    /// The watermark, if some were dropped.
    pub(super) until: Option<Timestamp>,
}

/// The rows that are in the file, and what of them still counts.
#[derive(Debug, Default)]
pub(super) struct TombstoneRows {
    /// For each bucket its rows and how many of the tombstones there are in the window; the oldest
    /// first.
    buckets: HashMap<BucketKey, VecDeque<(i64, usize)>>,
    /// For each bucket the row with its watermark.
    watermarks: HashMap<Option<BucketKey>, i64>,
    /// For each row how many tombstones and watermarks of it count.
    live: BTreeMap<i64, usize>,
    /// Rows of which nothing counts.
    dead: VecDeque<i64>,
    next: i64,
}

/// What a transaction writes, taken over when it is committed.
#[derive(Debug, Default)]
pub(super) struct Written {
    groups: Vec<Group>,
    dropped: Vec<(BucketKey, usize)>,
    removed: usize,
    /// The bytes that were written.
    pub(super) bytes: usize,
}

/// What a row says of one bucket.
#[derive(Debug)]
struct Group {
    row: i64,
    bucket: Option<BucketKey>,
    many: usize,
    has_watermark: bool,
}

/// What the rows say, read at a start.
pub(super) trait Windows {
    /// A tombstone of a bucket; returns `false` if its id has one already.
    fn tombstone(&mut self, bucket: &BucketKey, tombstone: Tombstone) -> bool;
    /// A watermark; `None`: of all buckets.
    fn watermark(&mut self, bucket: Option<&BucketKey>, until: Timestamp);
}

impl TombstoneRows {
    /// Writes what the changes say, and removes rows of which nothing counts.
    pub(super) fn write<'a>(
        &self,
        connection: &Connection,
        batch: impl Iterator<Item = &'a Changes>,
        now: Timestamp,
    ) -> rusqlite::Result<Written> {
        let mut written = Written::default();
        let mut merged: BTreeMap<Option<&BucketKey>, Vec<&WindowChange>> = BTreeMap::new();
        for change in batch.filter_map(|changes| changes.window.as_deref()) {
            merged
                .entry(change.bucket.as_ref())
                .or_default()
                .push(change);
        }
        let mut row = Row::new(self.next.max(1));
        for (bucket, changes) in merged {
            let dropped: usize = changes.iter().map(|change| change.dropped).sum();
            if let Some(bucket) = bucket.filter(|_| dropped > 0) {
                written.dropped.push((bucket.clone(), dropped));
            }
            let mut until = changes.iter().filter_map(|change| change.until).next_back();
            let mut ended = changes.iter().flat_map(|change| &change.ended).peekable();
            while ended.peek().is_some() || until.is_some() {
                let room = ROW_MAX - row.many;
                row.add(
                    bucket,
                    until.take(),
                    ended.by_ref().take(room),
                    &mut written,
                );
                if row.many == ROW_MAX {
                    let next = Row::new(row.number + 1);
                    std::mem::replace(&mut row, next).insert(connection, now, &mut written)?;
                }
            }
        }
        if !row.body.is_empty() {
            row.insert(connection, now, &mut written)?;
        }
        for number in self.dead.iter().take(REMOVED_MAX) {
            connection
                .prepare_cached("DELETE FROM tombstones WHERE number = ?1")?
                .execute([number])?;
            written.removed += 1;
        }
        Ok(written)
    }

    /// Takes over what was committed.
    pub(super) fn committed(&mut self, written: Written) {
        self.dead.drain(..written.removed.min(self.dead.len()));
        for group in written.groups {
            self.next = self.next.max(group.row + 1);
            self.add(group);
        }
        for (bucket, mut dropped) in written.dropped {
            let Some(rows) = self.buckets.get_mut(&bucket) else {
                continue;
            };
            while dropped > 0
                && let Some((row, many)) = rows.front_mut()
            {
                let less = dropped.min(*many);
                (*many, dropped) = (*many - less, dropped - less);
                let row = *row;
                if *many == 0 {
                    rows.pop_front();
                }
                less_of(&mut self.live, &mut self.dead, row, less);
            }
            if rows.is_empty() {
                self.buckets.remove(&bucket);
            }
        }
    }

    fn add(&mut self, group: Group) {
        let counts = group.many + usize::from(group.has_watermark);
        *self.live.entry(group.row).or_default() += counts;
        if group.has_watermark
            && let Some(before) = self.watermarks.insert(group.bucket.clone(), group.row)
        {
            less_of(&mut self.live, &mut self.dead, before, 1);
        }
        if let Some(bucket) = group.bucket.filter(|_| group.many > 0) {
            let rows = self.buckets.entry(bucket).or_default();
            rows.push_back((group.row, group.many));
        }
    }

    /// Returns whether there are rows to remove.
    pub(super) fn has_dead(&self) -> bool {
        !self.dead.is_empty()
    }

    /// Reads every row, the oldest first. Returns what is damaged: such a row is removed with the
    /// next transaction, and its tombstones are gone.
    pub(super) fn read(
        connection: &Connection,
        windows: &mut impl Windows,
    ) -> rusqlite::Result<(Self, usize)> {
        let (mut rows, mut damaged) = (Self::default(), 0);
        let mut statement =
            connection.prepare("SELECT number, written, body, sum FROM tombstones ORDER BY 1")?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let number: i64 = row.get(0)?;
            rows.next = rows.next.max(number.saturating_add(1));
            let groups = row.get_ref(2)?.as_blob().ok().and_then(|body| {
                let is_whole = row.get(3) == Ok(sum(number, row.get(1).ok()?, body));
                is_whole.then(|| decode(body)).flatten()
            });
            let Some(groups) = groups else {
                damaged += 1;
                rows.dead.push_back(number);
                continue;
            };
            // One of which nothing counts may go, too.
            rows.live.insert(number, 0);
            for (bucket, until, tombstones) in groups {
                let mut many = 0;
                if let Some(bucket) = &bucket {
                    let new = tombstones
                        .into_iter()
                        .filter(|one| windows.tombstone(bucket, *one));
                    many = new.count();
                }
                if let Some(until) = until {
                    windows.watermark(bucket.as_ref(), until);
                }
                rows.add(Group {
                    row: number,
                    bucket,
                    many,
                    has_watermark: until.is_some(),
                });
            }
            if rows.live.get(&number) == Some(&0) {
                rows.live.remove(&number);
                rows.dead.push_back(number);
            }
        }
        Ok((rows, damaged))
    }
}

/// Writes what the newest records say of events that have ended: for a file whose tombstones were
/// only there. Of an envelope they say nothing, so any push of such an id is a duplicate.
pub(super) fn write_of_records(connection: &Connection) -> rusqlite::Result<()> {
    let mut windows: BTreeMap<BucketKey, WindowChange> = BTreeMap::new();
    let mut oldest = None;
    let has_older = records::read_newest(connection, RECORDS_READ, |_, record| {
        oldest.get_or_insert(record.stages.finished_us);
        let (state, tries) = match record.outcome {
            // The attempt that ended it did not fail.
            Outcome::Acked | Outcome::Discarded => (State::Done, record.attempt.saturating_sub(1)),
            Outcome::Cancelled | Outcome::Dropped => (State::Cancelled, 0),
            Outcome::Expired => (State::Expired, 0),
            // It goes on, or waits as a dead letter.
            _ => return,
        };
        let bucket = BucketKey::new(record.queue, record.id.bucket());
        let window = windows.entry(bucket).or_default();
        window.ended.push(Tombstone {
            id: record.id,
            state,
            fingerprint: None,
            due: record.due,
            tries,
            maybe_running: false,
            settled: None,
            ended_us: record.stages.finished_us,
        });
    })?;
    // An id is made before its event ends, so younger ids are all in what was read.
    let until = oldest.filter(|_| has_older);
    let all = WindowChange {
        until: until.map(|finished_us| Timestamp::from_millis(finished_us / 1_000)),
        ..WindowChange::default()
    };
    let of_buckets = windows.into_iter().map(|(bucket, window)| WindowChange {
        bucket: Some(bucket),
        ..window
    });
    let changes = of_buckets.chain([all]).map(|window| Changes {
        window: Some(Box::new(window)),
        ..Changes::default()
    });
    let changes: Vec<Changes> = changes.collect();
    let now = Timestamp::EPOCH; // nobody asks when they were written
    TombstoneRows::default()
        .write(connection, changes.iter(), now)
        .map(drop)
}

/// Counts `less` fewer of a row, which may go when nothing of it counts.
fn less_of(live: &mut BTreeMap<i64, usize>, dead: &mut VecDeque<i64>, row: i64, less: usize) {
    if let Some(many) = live.get_mut(&row) {
        *many = many.saturating_sub(less);
        if *many == 0 {
            live.remove(&row);
            dead.push_back(row);
        }
    }
}

/// A row that is being written.
struct Row {
    number: i64,
    body: Vec<u8>,
    many: usize,
}

impl Row {
    fn new(number: i64) -> Self {
        Self {
            number,
            body: Vec::new(),
            many: 0,
        }
    }

    /// Adds what there is to say of a bucket.
    fn add<'a>(
        &mut self,
        bucket: Option<&BucketKey>,
        until: Option<Timestamp>,
        tombstones: impl Iterator<Item = &'a Tombstone>,
        written: &mut Written,
    ) {
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
        body.push(u8::from(until.is_some()));
        body.extend(until.unwrap_or_default().as_millis().to_le_bytes());
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
            many,
            has_watermark: until.is_some(),
        });
    }

    fn insert(
        self,
        connection: &Connection,
        now: Timestamp,
        written: &mut Written,
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

/// What a row says of a bucket.
type Found = (Option<BucketKey>, Option<Timestamp>, Vec<Tombstone>);

/// Reads a row; `None` if it is none.
fn decode(body: &[u8]) -> Option<Vec<Found>> {
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
        let [has_until] = reader.take()?;
        let until = Timestamp::from_millis(reader.number()?);
        let many = u32::from_le_bytes(reader.take()?) as usize;
        if many > reader.0.len() / BYTES {
            return None;
        }
        let mut tombstones = Vec::with_capacity(many);
        for _ in 0..many {
            tombstones.push(reader.tombstone()?);
        }
        groups.push((bucket, (has_until == 1).then_some(until), tombstones));
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
        let (mut row, mut written) = (Row::new(1), Written::default());
        let queue = QueueName::new("orders").unwrap();
        let bucket = BucketKey::new(queue, BucketId(9));
        let until = Some(Timestamp::from_millis(5));
        row.add(Some(&bucket), until, [whole, least].iter(), &mut written);
        row.add(None, until, [].iter(), &mut written);
        let found = decode(&row.body).unwrap();
        let expected = [
            (Some(bucket), until, vec![whole, least]),
            (None, until, Vec::new()),
        ];
        assert_eq!(found, expected);
        for len in 1..row.body.len() {
            let cut = decode(&row.body[..len]);
            assert!(cut.is_none_or(|cut| cut.len() < 2), "{len}");
        }
    }
}
