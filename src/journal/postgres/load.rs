//! Loading: all records in one transaction, each record once.
//!
//! The fast path copies into the records table itself. It is used if every number is above the
//! watermark of its outbox. The unique index decides in any case, so that a wrong watermark, after
//! a store that lost its tail or with two stores of one name, costs time and never a record. The
//! slow path copies into a table of its own and inserts the missing records.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use parking_lot::Mutex;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Transaction};

use super::copy::{COLUMNS, copy, ordered};
use super::counts::MinuteCounters;
use super::fault::{self, ErrorContext, PgError};
use super::row::Columns;
use super::schema;
use super::scope::Scope;
use super::weeks;
use crate::error::Result;
use crate::journal::contract::Batch;
use crate::record::Cursor;

/// The limit of attempts when concurrent transactions interfere.
const TRIES: usize = 5;

/// The limit of weeks in the cache.
const KNOWN_WEEKS_MAX: usize = 1_000;

/// The cache of one process.
#[derive(Debug, Default)]
pub(super) struct WeekCache {
    weeks: Mutex<BTreeSet<i32>>,
}

impl WeekCache {
    /// Returns those of these weeks that are not known to exist.
    fn unknown(&self, needed: &BTreeSet<i32>) -> BTreeSet<i32> {
        let weeks = self.weeks.lock();
        needed.difference(&weeks).copied().collect()
    }

    fn add(&self, found: &BTreeSet<i32>) {
        let mut weeks = self.weeks.lock();
        weeks.extend(found);
        while weeks.len() > KNOWN_WEEKS_MAX {
            weeks.pop_first();
        }
    }

    fn forget(&self) {
        let mut weeks = self.weeks.lock();
        weeks.clear();
    }
}

/// Why a transaction ended early.
enum LoadError {
    /// An error before the commit.
    PgError(PgError),
    /// An error of the commit itself.
    Commit(PgError),
    /// There are outboxes without a row.
    NewOutboxes,
    /// A newer duly has upgraded the tables to this version.
    Newer(usize),
}

impl From<PgError> for LoadError {
    fn from(fault: PgError) -> Self {
        Self::PgError(fault)
    }
}

/// The path of a load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoadPath {
    /// The fast one, if the watermarks allow it.
    ByMarks,
    Slow,
}

/// Loads batches, all of them or none.
pub(super) async fn load(
    client: &mut Client,
    scope: &Scope,
    known: &WeekCache,
    batches: &[Batch],
    spot: ErrorContext<'_>,
) -> Result<()> {
    let weeks = weeks_of(batches);
    if weeks.is_empty() {
        return Ok(());
    }
    let mut way = LoadPath::ByMarks;
    let mut tries = 0..TRIES;
    loop {
        let missing = known.unknown(&weeks);
        if !missing.is_empty() {
            let made = weeks::ensure(client, scope, &missing).await;
            made.map_err(|fault| spot.error(fault))?;
            known.add(&missing);
        }
        let fault = match attempt(client, scope, batches, way).await {
            Ok(()) => return Ok(()),
            Err(LoadError::Newer(version)) => return Err(schema::newer(version, spot)),
            Err(LoadError::Commit(fault)) => return Err(spot.maybe_committed(fault)),
            Err(LoadError::NewOutboxes) => {
                let added = add_outboxes(client, scope, batches).await;
                added.map_err(|fault| spot.error(fault))?;
                continue;
            }
            Err(LoadError::PgError(fault)) => fault,
        };
        let is_duplicate = fault::is_duplicate(&fault) && way == LoadPath::ByMarks;
        let has_no_week = fault::has_no_week(&fault);
        let goes_on = is_duplicate || has_no_week || fault::is_passing(&fault);
        if !goes_on || tries.next().is_none() {
            return Err(spot.error(fault));
        }
        if has_no_week {
            known.forget();
        }
        way = LoadPath::Slow;
    }
}

/// Returns the weeks of the records, and the one after the last, so that it exists before it
/// begins.
fn weeks_of(batches: &[Batch]) -> BTreeSet<i32> {
    let records = batches.iter().flat_map(|batch| &batch.records);
    let finished = records.map(|(_, record)| ordered(record.stages.finished_us));
    let mut weeks: BTreeSet<i32> = finished.map(weeks::of).collect();
    if let Some(last) = weeks.last().copied() {
        weeks.insert(last.saturating_add(1));
    }
    weeks
}

/// Creates the rows of outboxes in a transaction of their own, so that no load waits for one while
/// it holds others.
async fn add_outboxes(
    client: &mut Client,
    scope: &Scope,
    batches: &[Batch],
) -> Result<(), PgError> {
    let names: BTreeSet<&str> = batches.iter().map(|batch| batch.outbox.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let sql = "INSERT INTO outboxes (outbox, mark) SELECT unnest($1), 0 ORDER BY 1 \
               ON CONFLICT DO NOTHING";
    let params: [(&(dyn ToSql + Sync), Type); 1] = [(&names, Type::TEXT_ARRAY)];
    let step = scope.begin(client).await?;
    step.execute_typed(sql, &params).await?;
    step.commit().await
}

async fn attempt(
    client: &mut Client,
    scope: &Scope,
    batches: &[Batch],
    way: LoadPath,
) -> Result<(), LoadError> {
    let step = scope.begin(client).await?;
    if let Some(version) = schema::upgraded(&step, &scope.schema).await? {
        return Err(LoadError::Newer(version));
    }
    let tops = tops(batches);
    let marks = lock_outboxes(&step, &tops).await?;
    if marks.len() < tops.len() {
        return Err(LoadError::NewOutboxes);
    }
    let mut tally = MinuteCounters::default();
    match way {
        LoadPath::ByMarks if are_new(batches, &marks) => fast(&step, batches, &mut tally).await?,
        LoadPath::ByMarks | LoadPath::Slow => slow(&step, batches, &mut tally).await?,
    }
    raise_marks(&step, &tops).await?;
    // Last, as concurrent loads wait for these rows.
    tally.write(&step).await?;
    step.commit().await.map_err(LoadError::Commit)
}

/// Returns the highest number of each outbox.
fn tops(batches: &[Batch]) -> BTreeMap<&str, i64> {
    let mut tops: BTreeMap<&str, i64> = BTreeMap::new();
    for batch in batches {
        let top = tops.entry(&batch.outbox).or_default();
        let numbers = batch.records.iter().map(|(number, _)| ordered(*number));
        *top = numbers.fold(*top, i64::max);
    }
    tops
}

/// Returns the watermarks of the outboxes, and locks their rows for this load.
async fn lock_outboxes(
    step: &Transaction<'_>,
    tops: &BTreeMap<&str, i64>,
) -> Result<BTreeMap<String, i64>, PgError> {
    let names: Vec<&str> = tops.keys().copied().collect();
    // In order, so that two loads cannot deadlock.
    let sql = "SELECT outbox, mark FROM outboxes WHERE outbox = ANY ($1) \
               ORDER BY outbox FOR UPDATE";
    let params: [(&(dyn ToSql + Sync), Type); 1] = [(&names, Type::TEXT_ARRAY)];
    let rows = step.query_typed(sql, &params).await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}

/// Returns whether every number is above the watermark of its outbox, and above those before it.
fn are_new(batches: &[Batch], marks: &BTreeMap<String, i64>) -> bool {
    let mut marks = marks.clone();
    batches.iter().all(|batch| {
        let Some(mark) = marks.get_mut(&batch.outbox) else {
            return false;
        };
        batch.records.iter().all(|(number, _)| {
            let before = std::mem::replace(mark, ordered(*number));
            before < *mark
        })
    })
}

async fn fast<'a>(
    step: &Transaction<'_>,
    batches: &'a [Batch],
    tally: &mut MinuteCounters<'a>,
) -> Result<(), PgError> {
    let records = batches.iter().flat_map(|batch| &batch.records);
    copy(step, "records", records).await?;
    for batch in batches {
        for numbered in &batch.records {
            tally.add(&batch.outbox, numbered);
        }
    }
    Ok(())
}

async fn slow<'a>(
    step: &Transaction<'_>,
    batches: &'a [Batch],
    tally: &mut MinuteCounters<'a>,
) -> Result<(), LoadError> {
    // Not a temporary table, which needs a right that a database may not give; nor an unlogged one: a
    // server that dies soon after its end may refuse to start (PostgreSQL's bug 17731). Nobody else
    // sees this one, as the transaction that creates it drops it.
    let table = format!("loading_{:016x}", fastrand::u64(..));
    step.batch_execute(&format!("CREATE TABLE {table} (LIKE records)"))
        .await?;
    // Of duplicates the first counts, as if it had been loaded before.
    let mut seen = HashSet::new();
    let all = batches
        .iter()
        .flat_map(|batch| batch.records.iter().map(|it| (batch.outbox.as_str(), it)));
    let firsts: Vec<_> = all
        .filter(|(_, numbered)| seen.insert(stored(numbered)))
        .collect();
    copy(step, &table, firsts.iter().map(|(_, it)| *it)).await?;
    let sql = format!(
        "INSERT INTO records ({COLUMNS}) SELECT {COLUMNS} FROM {table} \
         ORDER BY event, finished, number ON CONFLICT DO NOTHING \
         RETURNING finished, number, event"
    );
    let rows = step.query_typed(&sql, &[]).await?;
    step.batch_execute(&format!("DROP TABLE {table}")).await?;
    let spot = ErrorContext {
        place: "the journal",
        doing: "cannot load into",
    };
    let inserted: HashSet<Cursor> = rows
        .iter()
        .filter_map(|row| Columns::of(row, spot).place().ok())
        .collect();
    for (outbox, numbered) in firsts {
        if inserted.contains(&stored(numbered)) {
            tally.add(outbox, numbered);
        }
    }
    Ok(())
}

/// Returns the key of a record as it is stored.
fn stored(numbered: &crate::record::Numbered) -> Cursor {
    let place = Cursor::of(numbered);
    Cursor {
        finished_us: ordered(place.finished_us).unsigned_abs(),
        number: ordered(place.number).unsigned_abs(),
        id: place.id,
    }
}

async fn raise_marks(step: &Transaction<'_>, tops: &BTreeMap<&str, i64>) -> Result<(), PgError> {
    let names: Vec<&str> = tops.keys().copied().collect();
    let tops: Vec<i64> = tops.values().copied().collect();
    let params: [(&(dyn ToSql + Sync), Type); 2] =
        [(&names, Type::TEXT_ARRAY), (&tops, Type::INT8_ARRAY)];
    let sql = "UPDATE outboxes AS o SET mark = n.top FROM unnest($1, $2) AS n (outbox, top) \
               WHERE o.outbox = n.outbox AND o.mark < n.top";
    step.execute_typed(sql, &params).await.map(drop)
}
