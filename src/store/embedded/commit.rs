//! The transaction that writes a batch of changes.

use std::borrow::Cow;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::codec::wire;
use crate::event::{BucketKey, Envelope, Payload};
use crate::record::Record;
use crate::sqlite::overwrite_deleted;
use crate::sqlite::records::{self, Arrival, Load, QueueNumbers};
use crate::store::embedded::change::{Change, Changes, NamedRows};
use crate::store::embedded::counts::Counts;
use crate::store::embedded::log_size::LogSize;
use crate::store::embedded::retention::Retention;
use crate::store::embedded::row::Row;
use crate::store::embedded::rows::ms;
use crate::store::embedded::schema::PAGE_BYTES;
use crate::store::embedded::sqlite::Failure;
use crate::store::embedded::starts::Start;
use crate::store::embedded::tombstones::TombstoneRows;
use crate::store::embedded::{added, controls, rows, sums, uniques};
use crate::time::Timestamp;

/// Writes batches; the only holder of the connection that writes.
#[derive(Debug)]
pub(super) struct Committer {
    pub(super) connection: Connection,
    counts: Counts,
    pub(super) tombstones: TombstoneRows,
    queues: QueueNumbers,
    /// `None`: nothing is removed, as it is not known yet what is kept.
    pub(super) retention: Option<Retention>,
    pub(super) log: LogSize,
    /// A watermark of every bucket that was written, and is not yet that of those in memory.
    pub(super) raised: Option<Timestamp>,
    /// As it was before and is now, where it was lowered.
    pub(super) lowered: Option<(Timestamp, Timestamp)>,
    /// Whether the bytes of what is deleted are overwritten in the file.
    overwrites: bool,
}

impl Committer {
    pub(super) fn new(connection: Connection, counts: Counts, tombstones: TombstoneRows) -> Self {
        let log = LogSize::found(&connection);
        Self {
            connection,
            counts,
            tombstones,
            queues: QueueNumbers::new(),
            retention: None,
            log,
            raised: None,
            lowered: None,
            overwrites: false,
        }
    }

    /// Writes all of `batch`, or nothing of it; returns when it is on disk, and the starts that have
    /// ended, as its records say. `may_miss`: rows of pushes that were refused may be named in it.
    pub(super) fn write<'a>(
        &mut self,
        batch: impl Iterator<Item = &'a Changes> + Clone,
        now: Timestamp,
        may_miss: bool,
    ) -> Result<Vec<Start>, Failure> {
        let erases = |change: &Change| matches!(change, Change::Erased(_));
        if !self.overwrites && batch.clone().any(|changes| changes.list.iter().any(erases)) {
            overwrite_deleted(&self.connection)?;
            self.overwrites = true;
        }
        self.connection
            .prepare_cached("BEGIN IMMEDIATE")
            .and_then(|mut begin| begin.execute([]))?;
        let is_idle = batch.clone().next().is_none();
        let added: usize = batch.clone().map(|changes| changes.held.len()).sum();
        let rows = self.connection.total_changes() + added as u64;
        let mut counts = self.counts;
        let written = Transaction::new(&self.connection, &mut counts, &mut self.queues, now)
            .and_then(|mut transaction| {
                transaction.may_miss = may_miss;
                transaction.fill(batch.clone())
            })
            .and_then(|(added, ended)| {
                let tombstones = self.tombstones.write(&self.connection, batch, now)?;
                counts.bytes += tombstones.bytes as u64;
                let added = (!is_idle).then_some(added);
                let (numbers, records) = (&mut self.queues, &mut counts.records);
                if let Some(retention) = &mut self.retention {
                    retention.step(&self.connection, numbers, records, added, now)?;
                }
                self.connection.prepare_cached("COMMIT")?.execute([])?;
                Ok((ended, tombstones))
            })
            .map_err(Failure::from);
        match written {
            Ok((ended, tombstones)) => {
                self.raised = self.raised.max(tombstones.raised);
                self.lowered = tombstones.lowered.or(self.lowered);
                self.tombstones.committed(tombstones);
                let bytes = counts.bytes - self.counts.bytes;
                self.counts = counts;
                // A row is in its table and in up to seven indexes; but what is added comes one
                // after the other, and fills half of its pages at least.
                let rows = self.connection.total_changes().saturating_sub(rows);
                self.log.grow(16 + 8 * rows + bytes / (PAGE_BYTES / 2));
                Ok(ended)
            }
            Err(failure) => {
                // It may hold numbers that were given and taken back.
                self.queues.clear();
                // SQLite has rolled back by itself after some errors.
                if !self.connection.is_autocommit() {
                    self.connection.execute_batch("ROLLBACK")?;
                }
                Err(failure)
            }
        }
    }

    /// Whether a bucket has this watermark as its own.
    pub(super) fn says(&self, bucket: &BucketKey, until: Timestamp) -> bool {
        self.tombstones.until(Some(bucket)) == Some(until)
    }

    /// Whether there are more records to remove than one commit does.
    pub(super) fn has_more_to_prune(&self) -> bool {
        self.retention.as_ref().is_some_and(Retention::has_more)
    }
}

/// The statements of one transaction.
struct Transaction<'a, 'b> {
    connection: &'a Connection,
    counts: &'a mut Counts,
    queues: &'a mut QueueNumbers,
    now: Timestamp,
    /// Pushes were refused for want of room, and changes to their rows may still come.
    may_miss: bool,
    stand: CachedStatement<'a>,
    remove: CachedStatement<'a>,
    /// The records, on their way.
    load: Load<'b>,
    /// The starts that have ended, as the records say.
    ended: Vec<Start>,
}

impl<'a, 'b> Transaction<'a, 'b> {
    fn new(
        connection: &'a Connection,
        counts: &'a mut Counts,
        queues: &'a mut QueueNumbers,
        now: Timestamp,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            connection,
            counts,
            queues,
            now,
            may_miss: false,
            stand: connection.prepare_cached(
                "UPDATE events SET due = ?2, tries = ?3, dead = ?4, sum = ?5 WHERE row = ?1",
            )?,
            remove: connection.prepare_cached("DELETE FROM events WHERE row BETWEEN ?1 AND ?2")?,
            load: Load::new(Arrival::First),
            ended: Vec::new(),
        })
    }

    /// Additions first and removals last, each in order of the rows; what lies between keeps the
    /// order in which it was decided. That is the order of each row's own life. Returns how many
    /// records were added, and which starts have ended.
    fn fill(
        mut self,
        batch: impl Iterator<Item = &'b Changes> + Clone,
    ) -> rusqlite::Result<(i64, Vec<Start>)> {
        let is_idle = batch.clone().next().is_none();
        added::write(self.connection, self.counts, batch.clone())?;
        let mut removed = Vec::new();
        for changes in batch {
            let mut records = changes.records.iter();
            for change in &changes.list {
                match change {
                    Change::Added { .. } => {}
                    Change::Removed(row) => removed.push(row.number),
                    Change::Recorded { telling } => {
                        if let Some(record) = records.next() {
                            self.record(record, *telling)?;
                        }
                    }
                    Change::Stands { row, due, used } => {
                        self.stand(*row, ms(*due), rows::of_used(*used), None)?;
                    }
                    Change::Dead { row, at, tries } => {
                        if let Some(due) = self.due(*row)? {
                            self.stand(*row, due, (*tries).into(), Some(ms(*at)))?;
                        }
                    }
                    Change::Updated { row, payload } => self.update(*row, payload)?,
                    Change::Damaged { row, why } => self.set_aside(row.number, why)?,
                    Change::Lost { why } => self.note_loss(why)?,
                    Change::UniqueHeld { bucket, key, held } => {
                        uniques::write(self.connection, bucket, key, *held)?;
                    }
                    Change::Erased(places) => records::erase(self.connection, places)?,
                    Change::Controlled { queue, control } => {
                        controls::write(self.connection, queue, control)?;
                    }
                    Change::Unnamed { table, number } => {
                        let remove = match table {
                            NamedRows::Controls => "DELETE FROM controls WHERE rowid = ?1",
                            NamedRows::Uniques => "DELETE FROM uniques WHERE rowid = ?1",
                        };
                        self.connection.execute(remove, [number])?;
                    }
                }
            }
        }
        removed.sort_unstable();
        // What is handled in order of arrival goes in runs, with one statement each.
        for run in removed.chunk_by(|row, next| row + 1 == *next) {
            self.remove(run)?;
        }
        // Also where it changes nothing, if a transaction may have failed that is whole in the log:
        // this one takes its place there.
        if !is_idle || self.may_miss {
            self.count()?;
        }
        let added = self.load.finish(self.connection)?;
        self.counts.records += added;
        Ok((added, self.ended))
    }

    fn stand(&mut self, row: Row, due: i64, tries: i64, dead: Option<i64>) -> rusqlite::Result<()> {
        let sum = sums::of_event(row, due, tries, dead);
        self.stand
            .execute(params![row.number, due, tries, dead, sum])?;
        Ok(())
    }

    /// Removes rows without a gap. Some are not there when their push was refused for want of room.
    fn remove(&mut self, run: &[i64]) -> rusqlite::Result<()> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            return Ok(());
        };
        let there: Vec<i64> = if self.may_miss {
            self.connection
                .prepare_cached("SELECT row FROM events WHERE row BETWEEN ?1 AND ?2")?
                .query_map([first, last], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?
        } else {
            Vec::new()
        };
        let removed = self.remove.execute([first, last])?;
        self.counts.events -= i64::try_from(removed).unwrap_or(i64::MAX);
        for row in if self.may_miss { &there } else { run } {
            self.counts.rows ^= sums::of_row(*row);
        }
        Ok(())
    }

    /// The due time as it is stored, when its checksum holds.
    ///
    /// A row whose checksum does not hold keeps it: what is damaged is never made to look whole.
    fn due(&self, row: Row) -> rusqlite::Result<Option<i64>> {
        let found = self
            .connection
            .prepare_cached("SELECT due, tries, dead, sum FROM events WHERE row = ?1")?
            .query_row([row.number], |found| {
                let due = found.get(0)?;
                let sum = sums::of_event(row, due, found.get(1)?, found.get(2)?);
                Ok((due, sum == found.get::<_, i64>(3)?))
            })
            .optional()?;
        Ok(found.filter(|(_, whole)| *whole).map(|(due, _)| due))
    }

    /// The envelope in a row, when its bytes can be believed.
    fn envelope(&self, row: Row) -> rusqlite::Result<Option<Envelope>> {
        let found = self
            .connection
            .prepare_cached("SELECT body FROM events WHERE row = ?1")?
            .query_row([row.number], |found| {
                let body = found.get_ref(0)?.as_blob().ok();
                Ok(body.and_then(|body| wire::decode(body).ok()))
            })
            .optional()?;
        Ok(found.flatten().filter(|envelope| row.is_of(envelope.id)))
    }

    /// A damaged envelope has nothing to tell: the record goes without.
    fn record(&mut self, record: &'b Record, telling: Option<Row>) -> rusqlite::Result<()> {
        if record.attempt > 0 {
            self.ended.push(Start::of(record));
        }
        let envelope = match telling {
            Some(row) => self.envelope(row)?,
            None => None,
        };
        let record = match envelope {
            Some(envelope) => Cow::Owned(record.clone().telling(&envelope)),
            None => Cow::Borrowed(record),
        };
        let payload = record.payload.as_ref();
        self.counts.bytes += payload.map_or(0, |payload| payload.len() as u64);
        let number = self.counts.next_record;
        self.load
            .add(self.connection, self.queues, number, record)?;
        self.counts.next_record += 1;
        Ok(())
    }

    fn update(&mut self, row: Row, payload: &Payload) -> rusqlite::Result<()> {
        // A damaged body is left as it is; whoever reads it sets it aside.
        if let Some(mut envelope) = self.envelope(row)? {
            envelope.payload = payload.clone();
            let mut body = Vec::new();
            wire::encode(&envelope, &mut body);
            self.counts.bytes += body.len() as u64;
            self.connection
                .prepare_cached("UPDATE events SET body = ?2 WHERE row = ?1")?
                .execute(params![row.number, body])?;
        }
        Ok(())
    }

    fn set_aside(&self, row: i64, why: &str) -> rusqlite::Result<()> {
        let copied = self
            .connection
            .prepare_cached(
                "INSERT INTO damaged (found, why, row, due, tries, dead, sum, body) \
                 SELECT ?2, ?3, row, due, tries, dead, sum, body FROM events WHERE row = ?1",
            )?
            .execute(params![row, ms(self.now), why])?;
        if copied == 0 {
            self.note_loss(why)?;
        }
        Ok(())
    }

    fn note_loss(&self, why: &str) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("INSERT INTO damaged (found, why) VALUES (?1, ?2)")?
            .execute(params![ms(self.now), why])?;
        Ok(())
    }

    fn count(&self) -> rusqlite::Result<()> {
        let Counts { events, rows, .. } = *self.counts;
        let tally = [events, rows, sums::of_tally(events, rows)];
        let written = self
            .connection
            .prepare_cached("UPDATE tally SET events = ?1, rows = ?2, sum = ?3 WHERE one = 1")?
            .execute(tally)?;
        if written == 0 {
            // The row was lost, which is noted, and must not be noted at each start.
            self.connection
                .prepare_cached("INSERT INTO tally VALUES (1, ?1, ?2, ?3)")?
                .execute(tally)?;
        }
        Ok(())
    }
}
