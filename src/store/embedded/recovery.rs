//! Recovery: the state in memory, from the file.
//!
//! Recovery may be interrupted anywhere and as often as it likes: it reads, decides, writes all
//! that it decided in one transaction, and only then lets go of the notes it decided from.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::Path;

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::codec::body::View;
use crate::codec::wire;
use crate::core::engine::{DedupWindow, Restored, Tombstone};
use crate::core::op::UsedAttempts;
use crate::error::{Error, Result};
use crate::event::{BucketKey, EventId, QueueName};
use crate::metrics::found_damage;
use crate::panics;
use crate::sqlite::records;
use crate::store::control::Control;
use crate::store::embedded::cache::Cache;
use crate::store::embedded::change::{Change, Changes, WindowChange};
use crate::store::embedded::change_recorder::ChangeRecorder;
use crate::store::embedded::commit::Committer;
use crate::store::embedded::counts::Counts;
use crate::store::embedded::interrupted::InterruptedAttempts;
use crate::store::embedded::row::Row;
use crate::store::embedded::rows::{self, Columns};
use crate::store::embedded::starts::Start;
use crate::store::embedded::tombstones::{TombstoneRows, Windows};
use crate::store::embedded::{controls, row, schema, sums, uniques};
use crate::store::shards::{Shards, WakeRule};
use crate::time::Timestamp;

/// How many of the last records are read to learn which attempts are over.
const FINISHED_READ: i64 = 500_000;

/// What a recovery found.
pub struct Recovery {
    pub(super) shards: Shards<i64>,
    pub(super) committer: Committer,
    /// The number of the next row.
    pub(super) next_row: i64,
    /// What was set of queues.
    pub controls: BTreeMap<QueueName, Control>,
}

impl fmt::Debug for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovery")
            .field("controls", &self.controls)
            .finish_non_exhaustive()
    }
}

impl Recovery {
    /// The buckets that have events that are not over.
    pub fn buckets(&self) -> Vec<BucketKey> {
        self.shards.keys()
    }

    /// Checks every bucket and returns the first violation.
    ///
    /// # Errors
    ///
    /// In words, what is wrong in the index.
    pub fn check(&self) -> std::result::Result<(), String> {
        self.shards.check()
    }
}

/// Reads everything that is not over and what was over last.
pub fn recover(
    path: &Path,
    mut connection: Connection,
    starts: HashSet<Start>,
    window: DedupWindow,
    now: Timestamp,
) -> Result<Recovery> {
    let mut scan = Scan {
        shards: Shards::new(window),
        interrupted: InterruptedAttempts::new(starts, now),
        last: None,
        changes: Changes::default(),
        corrected: Vec::new(),
        has_old: false,
        next_row: 1,
        counts: Counts {
            events: 0,
            rows: 0,
            records: 0,
            next_record: 1,
            bytes: 0,
        },
    };
    let mut read = |scan: &mut Scan| {
        let tombstones = scan.read_tombstones(&connection, now)?;
        scan.read_finished(&connection)?;
        scan.read_uniques(&connection)?;
        scan.correct_times(now);
        scan.interrupted.sort();
        let tally = schema::tally(&connection)?;
        let count = tally.map_or(0, |(events, _)| events);
        scan.read_events(&mut connection, count)?;
        scan.compare(tally);
        let controls = controls::read(&connection, &mut scan.changes)?;
        Ok((controls, tombstones))
    };
    let (controls, tombstones) =
        read(&mut scan).map_err(|error| schema::KIND.at_open(path, error))?;
    let Scan {
        shards,
        changes,
        corrected,
        counts,
        next_row,
        ..
    } = scan;
    let mut committer = Committer::new(connection, counts, tombstones);
    if !changes.is_empty() || !corrected.is_empty() {
        let all = corrected.iter().chain(std::iter::once(&changes));
        committer
            .write(all, now, false)
            .map_err(|failure| schema::KIND.at_open(path, failure.error))?;
        let is_damage = |it: &&Change| matches!(it, Change::Damaged { .. } | Change::Lost { .. });
        found_damage("open", changes.list.iter().filter(is_damage).count());
    }
    Ok(Recovery {
        shards,
        committer,
        next_row,
        controls,
    })
}

struct Scan {
    shards: Shards<i64>,
    interrupted: InterruptedAttempts,
    /// The bucket of the row before: neighbours often share its queue.
    last: Option<BucketKey>,
    /// What the recovery itself has to write.
    changes: Changes,
    /// What it has to write of each bucket, as a clock that was ahead has written it.
    corrected: Vec<Changes>,
    /// Whether a bucket has a tombstone that has reached the greatest age.
    has_old: bool,
    next_row: i64,
    counts: Counts,
}

impl Scan {
    fn read_events(&mut self, connection: &mut Connection, count: i64) -> rusqlite::Result<()> {
        rows::read(connection, count, |batch| {
            for (number, columns) in batch.rows {
                self.counts.events += 1;
                self.counts.rows ^= sums::of_row(number);
                let restored =
                    columns.and_then(|columns| self.read_event(number, columns, &batch.bytes));
                if let Err(error) = restored {
                    panics::reported(|| {
                        tracing::error!(
                            row = number,
                            %error,
                            "damaged event removed; its bytes are in the table `damaged`"
                        );
                    });
                    let why = error.to_string();
                    let row = Row { number, tag: 0 };
                    self.changes.list.push(Change::Damaged { row, why });
                    self.changes.list.push(Change::Removed(row));
                }
            }
        })?;
        self.shards.index_restored();
        Ok(())
    }

    fn read_event(&mut self, number: i64, columns: Columns, bytes: &[u8]) -> Result<()> {
        let view = wire::view(bytes.get(columns.body).unwrap_or_default())?;
        let row = Row::new(number, view.id);
        if !row::NUMBERS.contains(&number) {
            return Err(Error::corrupt("no row has such a number"));
        }
        let (due, tries, dead) = (columns.due, columns.tries, columns.dead);
        if sums::of_event(row, due, tries, dead) != columns.sum {
            return Err(Error::corrupt("the checksum of its row does not hold"));
        }
        let UsedAttempts {
            tries,
            interruptions,
        } = rows::used(tries);
        if dead.is_none() && tries >= view.attempts {
            return Err(Error::corrupt(
                "it has used up its attempts and is no dead letter",
            ));
        }
        let key = self.key(&view)?;
        let mut restored = Restored {
            id: view.id,
            body: number,
            due: Timestamp::from_millis(due.cast_unsigned()),
            tries,
            interruptions,
            attempts: view.attempts,
            fingerprint: view.fingerprint,
            key: view.key.map(str::to_owned),
            unique: view.unique.map(str::to_owned),
            unique_for: view.unique_for(),
            expires: view.expires,
            late: view.late,
            tells: view.tells(),
            bytes: view.payload.len(),
            dead_at: dead.map(|at| Timestamp::from_millis(at.cast_unsigned())),
        };
        if number < self.next_row && self.is_known(&key, view.id) {
            // The same row by two ways through a damaged tree; once is right.
            return Ok(());
        }
        self.next_row = self.next_row.max(number.saturating_add(1));
        if self.has_old {
            self.forget_old(&key, view.id);
        }
        self.interrupted
            .count(&key, &mut restored, &mut self.changes);
        if self.shards.restore(&key, restored) {
            Ok(())
        } else {
            Err(Error::corrupt(
                "the same event is in another row, or its end is on record",
            ))
        }
    }

    /// The unique keys of events that are done; one that waits with such a key takes it over.
    fn read_uniques(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for held in uniques::read(connection, &mut self.changes)? {
            self.shards.change(&held.bucket, WakeRule::Known, |bucket| {
                bucket.restore_unique(&held.key, held.id, held.until);
            });
        }
        Ok(())
    }

    /// What a clock that was ahead has written holds nothing for longer.
    fn correct_times(&mut self, now: Timestamp) {
        let cache = Mutex::new(Cache::new(1, 0)); // no event is added
        self.shards.change_all(|bucket| {
            let mut recorder = ChangeRecorder::new(&cache);
            bucket.correct_times(now, &mut recorder);
            self.has_old |= bucket.is_old(now.as_micros());
            if !recorder.changes.is_empty() {
                self.corrected.push(recorder.changes);
            }
        });
    }

    /// An id may be pushed again once its tombstone has reached the greatest age and was dropped.
    /// A row of tombstones goes later than that, and what it holds is no reason to set an event aside.
    fn forget_old(&mut self, key: &BucketKey, id: EventId) {
        let (now, cache) = (self.interrupted.now(), Mutex::new(Cache::new(1, 0)));
        let mut recorder = ChangeRecorder::new(&cache);
        self.shards.change(key, WakeRule::Known, |bucket| {
            bucket.forget_old_before(id, now, &mut recorder);
        });
        if !recorder.changes.is_empty() {
            self.corrected.push(recorder.changes);
        }
    }

    /// Whether the event was restored already.
    fn is_known(&self, key: &BucketKey, id: EventId) -> bool {
        self.shards
            .change(key, WakeRule::Known, |bucket| bucket.get(id).is_some())
    }

    fn key(&mut self, view: &View<'_>) -> Result<BucketKey> {
        let bucket = view.bucket();
        if let Some(last) = &self.last
            && *last.queue == *view.queue
        {
            return Ok(BucketKey::new(last.queue.clone(), bucket));
        }
        let queue = QueueName::new(view.queue)
            .map_err(|error| Error::corrupt("it names a queue that cannot exist").because(error))?;
        let key = BucketKey::new(queue, bucket);
        self.last = Some(key.clone());
        Ok(key)
    }

    /// Rows that vanished leave no trace but here.
    fn compare(&mut self, tally: Option<(i64, i64)>) {
        let why = match tally {
            Some(tally) if tally == (self.counts.events, self.counts.rows) => return,
            Some((events, _)) => format!(
                "the file says that it holds {events} events, it holds {}: some are lost, or came \
                 back",
                self.counts.events
            ),
            None => "the tally of the events is damaged: nobody knows whether some are lost".into(),
        };
        panics::reported(|| tracing::error!(%why, "embedded store damaged"));
        self.changes.list.push(Change::Lost { why });
    }

    /// The last records say which attempts are over.
    fn read_finished(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut oldest = None;
        let mut last = 0;
        let read = records::read_newest(connection, FINISHED_READ, |number, record| {
            oldest.get_or_insert(record.stages.finished_us);
            last = last.max(number);
            self.interrupted.read(number, &record);
        })?;
        self.counts.next_record = last + 1;
        self.counts.records = read;
        if read == FINISHED_READ {
            // A damaged count must not have records removed that are not too many.
            let first = records::oldest_number(connection)?.unwrap_or(1);
            let most = (last + 1).cast_signed().saturating_sub(first);
            self.counts.records = records::total(connection)?.min(most).max(read);
        }
        // There may have been older ones: the order in which they go is that of their times, and
        // neither their numbers nor how many there are tell of those that went.
        if let Some(finished_us) = oldest {
            let from = Timestamp::from_micros_up(finished_us);
            self.interrupted.recorded_from(from);
        }
        Ok(())
    }

    /// The dedup windows as they were.
    fn read_tombstones(
        &mut self,
        connection: &Connection,
        now: Timestamp,
    ) -> rusqlite::Result<TombstoneRows> {
        let (rows, damaged) = TombstoneRows::read(connection, now, &mut self.shards)?;
        if damaged > 0 {
            let why = format!(
                "{damaged} lists of ids that ended are damaged: pushes of ids that were made \
                 before this start may be refused as too old"
            );
            panics::reported(|| tracing::error!(%why, "embedded store damaged"));
            self.changes.list.push(Change::Lost { why });
            // Whatever they were, they are older than ids of this millisecond.
            let until = Timestamp::from_millis(now.as_millis().saturating_sub(1));
            self.shards.watermark(None, until);
            self.changes.window = Some(Box::new(WindowChange {
                until: Some(until),
                ..WindowChange::default()
            }));
        }
        Ok(rows)
    }
}

impl Windows for Shards<i64> {
    fn tombstone(&mut self, bucket: &BucketKey, tombstone: Tombstone) -> bool {
        self.change(bucket, WakeRule::Known, |bucket| {
            bucket.restore_tombstone(tombstone)
        })
    }

    fn watermark(&mut self, bucket: Option<&BucketKey>, until: Timestamp) {
        match bucket {
            Some(bucket) => self.set_watermark_of(bucket, until),
            None => self.raise_watermark(until),
        }
    }

    fn watermark_ahead(&mut self, bucket: &BucketKey, until: Timestamp) {
        self.change(bucket, WakeRule::Known, |bucket| {
            bucket.raise_watermark_ahead(until);
        });
    }
}
