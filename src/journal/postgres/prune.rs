//! Retention: removes the oldest records, whole weeks at once where a week is large.
//!
//! The records of a week are counted as they are loaded, so pruning counts nothing. One node prunes
//! at a time; no load waits longer than [`LOCK_TIMEOUT`] for it.

use tokio_postgres::{Client, Row, Transaction};

use super::copy::ordered;
use super::counts;
use super::fault::{self, ErrorContext, PgError};
use super::keep;
use super::pace::{self, Kind};
use super::schema;
use super::scope::{Scope, exists, lock};
use super::weeks;
use crate::error::Result;
use crate::panics;
use crate::record::{Keep, Pruned};
use crate::time::Timestamp;

/// The limit of rows that one step deletes.
const ROWS_MAX: i64 = 5_000;

/// The minimum number of records in a week that is dropped as a whole.
const LARGE: i64 = 100_000;

/// How long a step waits for a lock, and others behind it.
const LOCK_TIMEOUT: &str = "500ms";
/// From when on a week that somebody holds is warned of: a day over its age, or a part of the number
/// that is kept too many.
const OVERDUE_US: i64 = 86_400_000_000;

/// Up to one part in this many of the records kept may exceed their age, to be dropped with their
/// week.
const SHARE: i64 = 4;

/// The oldest week with records.
struct Oldest {
    week: i32,
    records: i64,
    /// The records of all weeks.
    total: i64,
}

/// The action on the oldest week.
enum PruneAction {
    Drop {
        is_overdue: bool,
    },
    /// Delete the records that finished before then, and in any case this many of the oldest.
    Delete {
        before: i64,
        excess: i64,
    },
}

/// Removes some records beyond the retention limits.
pub(super) async fn prune(
    client: &mut Client,
    scope: &Scope,
    keep: Keep,
    now: Timestamp,
    spot: ErrorContext<'_>,
) -> Result<Pruned> {
    match step(client, scope, keep, now).await {
        Ok(Ok(pruned)) => Ok(pruned),
        Ok(Err(version)) => Err(schema::newer(version, spot)),
        Err(fault) if fault::is_locked(&fault) => {
            panics::reported(|| tracing::debug!("pruning deferred, the journal is in use"));
            Ok(Pruned::default())
        }
        Err(fault) => Err(spot.error(fault)),
    }
}

/// Makes one step, under the lock of upgrades; returns the version of the tables, if a newer duly
/// has upgraded them.
async fn step(
    client: &mut Client,
    scope: &Scope,
    keep: Keep,
    now: Timestamp,
) -> Result<Result<Pruned, usize>, PgError> {
    let step = begin(client, scope).await?;
    if let Some(version) = schema::upgraded(&step, &scope.schema).await? {
        return Ok(Err(version));
    }
    let keep = keep::longest(&step, keep).await?;
    let mut pruned = Pruned::default();
    if let Some(age) = keep.minutes {
        let allowed = pace::allowed(&step, Kind::Minutes, age, keep.at_once, now).await?;
        let before = ordered(allowed.before.div_ceil(1_000));
        let is_all = counts::prune(&step, before, ROWS_MAX.unsigned_abs()).await?;
        pruned.more = !is_all;
        pruned.is_held_back = allowed.is_held_back;
    }
    let mut before = i64::MIN;
    if let Some(age) = keep.age {
        let allowed = pace::allowed(&step, Kind::Records, age, keep.at_once, now).await?;
        before = ordered(allowed.before);
        pruned.is_held_back |= allowed.is_held_back;
    }
    let (mut emptied, mut due_week) = (None, None);
    if let Some(oldest) = oldest(&step).await? {
        match due(&oldest, keep, before) {
            PruneAction::Drop { is_overdue } => due_week = Some((oldest.week, is_overdue)),
            PruneAction::Delete { before, excess } => {
                let table = weeks::table(oldest.week);
                // None, although the counters say otherwise: they were removed by hand, uncounted.
                let removed = if exists(&step, &scope.schema, &table).await? {
                    delete(&step, &table, before, excess).await?
                } else {
                    0
                };
                let is_over = excess > 0 || weeks::end(oldest.week) <= before;
                let gone = match removed {
                    0 if is_over => oldest.records,
                    removed => removed,
                };
                count_down(&step, oldest.week, gone).await?;
                let is_empty = gone == oldest.records;
                pruned.records = removed.unsigned_abs();
                pruned.more |= is_empty || removed >= ROWS_MAX;
                let goes = is_empty && gone < oldest.total && weeks::can_be_dropped(oldest.week);
                emptied = goes.then_some(oldest.week);
            }
        }
    }
    // What was done so far stays, whoever holds the week.
    step.commit().await?;
    if let Some(week) = emptied {
        drop_emptied(client, scope, week).await?;
    }
    if let Some((week, is_overdue)) = due_week {
        match drop_due(client, scope, week).await {
            Err(fault) if fault::is_locked(&fault) => deferred(week, is_overdue),
            dropped => {
                let with = |records: i64| Pruned {
                    records: records.unsigned_abs(),
                    more: true, // the next week may be due as well
                    ..pruned
                };
                return Ok(dropped?.map(with));
            }
        }
    }
    Ok(Ok(pruned))
}

/// Drops a large week in a transaction of its own; returns the number of its records, or the version
/// of tables that a newer duly has upgraded.
async fn drop_due(
    client: &mut Client,
    scope: &Scope,
    week: i32,
) -> Result<Result<i64, usize>, PgError> {
    let step = begin(client, scope).await?;
    if let Some(version) = schema::upgraded(&step, &scope.schema).await? {
        return Ok(Err(version));
    }
    let records = drop_week(&step, week).await?;
    step.commit().await?;
    Ok(Ok(records))
}

/// Logs that a week is in use and stays for now.
fn deferred(week: i32, is_overdue: bool) {
    let table = weeks::table(week);
    if is_overdue {
        panics::reported(|| {
            tracing::warn!(
                table,
                "records that should have gone a day ago stay, as the journal is in use: loads take \
                 long, a dump is under way, or a transaction that has read it is left open"
            );
        });
    } else {
        panics::reported(|| tracing::debug!(table, "a week of records is in use, and stays"));
    }
}

async fn begin<'a>(client: &'a mut Client, scope: &Scope) -> Result<Transaction<'a>, PgError> {
    let step = scope.begin(client).await?;
    step.batch_execute(&format!("SET LOCAL lock_timeout TO '{LOCK_TIMEOUT}'"))
        .await?;
    lock(&step, &scope.schema).await?;
    Ok(step)
}

async fn oldest(step: &Transaction<'_>) -> Result<Option<Oldest>, PgError> {
    let sql = "SELECT week, sum(records)::bigint, (SELECT sum(records)::bigint FROM weeks) \
               FROM weeks GROUP BY week HAVING sum(records) > 0 ORDER BY week LIMIT 1";
    let row = step.query_typed_opt(sql, &[]).await?;
    let read = |row: Row| {
        Ok(Oldest {
            week: row.try_get(0)?,
            records: row.try_get(1)?,
            total: row.try_get(2)?,
        })
    };
    row.map(read).transpose()
}

fn due(oldest: &Oldest, keep: Keep, mut before: i64) -> PruneAction {
    let count = keep.count.map_or(i64::MAX, ordered);
    let mut excess = oldest.total.saturating_sub(count);
    if oldest.records > LARGE && weeks::can_be_dropped(oldest.week) {
        let end = weeks::end(oldest.week);
        if end <= before || oldest.records <= excess {
            let too_many = excess.saturating_sub(oldest.records);
            let is_overdue =
                end.saturating_add(OVERDUE_US) <= before || too_many >= (count / SHARE).max(1);
            return PruneAction::Drop { is_overdue };
        }
        // Row by row it would take as long as loading them took. It may stay until its end.
        let age = keep.age.map_or(i64::MAX, |age| {
            i64::try_from(age.as_micros()).unwrap_or(i64::MAX)
        });
        if weeks::WEEK_US <= age / SHARE {
            before = i64::MIN;
        }
        if oldest.records <= count / SHARE {
            excess = 0;
        }
    }
    PruneAction::Delete { before, excess }
}

/// Deletes a bounded number of the oldest rows of the table of a week; returns their number.
async fn delete(
    step: &Transaction<'_>,
    table: &str,
    before: i64,
    excess: i64,
) -> Result<i64, PgError> {
    let oldest = async |condition: String, most: i64| -> Result<i64, PgError> {
        if most <= 0 {
            return Ok(0);
        }
        let sql = format!(
            "DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table} \
             WHERE {condition} ORDER BY finished, number, event LIMIT {most}))"
        );
        let removed = step.execute_typed(&sql, &[]).await?;
        Ok(i64::try_from(removed).unwrap_or(i64::MAX))
    };
    let mut removed = oldest("true".to_owned(), excess.min(ROWS_MAX)).await?;
    if before > i64::MIN {
        let condition = format!("finished < '{before}'::bigint");
        removed += oldest(condition, ROWS_MAX - removed).await?;
    }
    Ok(removed)
}

async fn count_down(step: &Transaction<'_>, week: i32, gone: i64) -> Result<(), PgError> {
    if gone == 0 {
        return Ok(());
    }
    let sql = format!(
        "INSERT INTO weeks AS w (week, outbox, records) VALUES ({week}, '', -{gone}) \
         ON CONFLICT (week, outbox) DO UPDATE SET records = w.records + excluded.records"
    );
    step.execute_typed(&sql, &[]).await.map(drop)
}

/// Drops the table of a week; returns the number of its records.
async fn drop_week(step: &Transaction<'_>, week: i32) -> Result<i64, PgError> {
    // A load holds this lock until its counters are written, so they are complete.
    step.batch_execute("LOCK TABLE ONLY records IN ACCESS EXCLUSIVE MODE")
        .await?;
    let sql = format!("SELECT coalesce(sum(records), 0)::bigint FROM weeks WHERE week = {week}");
    let records = step.query_typed_one(&sql, &[]).await?.try_get(0)?;
    let table = weeks::table(week);
    step.batch_execute(&format!(
        "DELETE FROM weeks WHERE week = {week}; DROP TABLE IF EXISTS {table}"
    ))
    .await?;
    Ok(records)
}

/// Drops the table of a week without records, unless it is locked or records have come since; an
/// empty table does no harm.
async fn drop_emptied(client: &mut Client, scope: &Scope, week: i32) -> Result<(), PgError> {
    let dropped = async {
        let step = begin(client, scope).await?;
        match drop_week(&step, week).await? {
            0 => step.commit().await,
            _ => step.rollback().await,
        }
    };
    match dropped.await {
        Err(fault) if !fault::is_locked(&fault) => Err(fault),
        Ok(()) | Err(_) => Ok(()),
    }
}
