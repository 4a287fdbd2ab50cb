//! Retention: one step of it, short enough that no load waits noticeably.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Transaction, TransactionBehavior, params};

use crate::error::Result;
use crate::journal::sqlite::loading::Writer;
use crate::journal::sqlite::paging::Place;
use crate::journal::sqlite::rows::comparable;
use crate::journal::sqlite::{fault, parts};
use crate::journal::{Keep, Pruned};
use crate::time::Timestamp;

/// How many records one step removes at most.
const RECORDS_MAX: i64 = 2_000;
/// How many counts of a table one step removes, and then those of the same minute.
const COUNTS_MAX: i64 = 2_000;

impl Writer {
    /// Removes some of what is beyond `keep` at `now`, in one transaction.
    pub(super) fn prune(&mut self, keep: Keep, now: Timestamp) -> Result<Pruned> {
        let connection = &mut self.connection;
        let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let prune = |step: Transaction<'_>| -> rusqlite::Result<Pruned> {
            let (removed, mut more) = records(&step, keep, now)?;
            if let Some(age) = keep.minutes {
                let before = minute_before(now, age);
                more |= counts(&step, "minutes", before)?;
                more |= counts(&step, "lateness", before)?;
            }
            step.commit()?;
            let records = removed.unsigned_abs();
            Ok(Pruned { records, more })
        };
        begun.and_then(prune).map_err(fault::at_write)
    }
}

/// The first minute that is kept.
fn minute_before(now: Timestamp, age: Duration) -> i64 {
    comparable((now - age).as_millis().div_ceil(60_000))
}

/// Removes the oldest records; answers how many, and whether there are more to remove.
fn records(step: &Transaction<'_>, keep: Keep, now: Timestamp) -> rusqlite::Result<(i64, bool)> {
    let most = keep.count.map_or(i64::MAX, comparable);
    let excess = parts::total(step)?.saturating_sub(most).max(0);
    let oldest = keep
        .age
        .map_or(0, |age| comparable((now - age).as_micros()));
    let (mut removed, mut last, mut more) = (0, None, false);
    let mut of_parts: BTreeMap<i64, i64> = BTreeMap::new();
    let mut oldest_first = step.prepare_cached(
        "SELECT finished, number, event, part FROM records \
         ORDER BY finished, number, event LIMIT ?1",
    )?;
    let mut rows = oldest_first.query([RECORDS_MAX + 1])?;
    while let Some(row) = rows.next()? {
        let place: Place = (row.get(0)?, row.get(1)?, row.get(2)?);
        if removed >= excess && place.0 >= oldest {
            break;
        }
        if removed == RECORDS_MAX {
            more = true;
            break;
        }
        removed += 1;
        *of_parts.entry(row.get(3)?).or_default() += 1;
        last = Some(place);
    }
    drop(rows);
    if let Some((finished, number, event)) = last {
        step.prepare_cached("DELETE FROM records WHERE (finished, number, event) <= (?1, ?2, ?3)")?
            .execute(params![finished, number, event])?;
        for (part, gone) in of_parts {
            parts::count(step, part, -gone)?;
        }
        parts::forget_empty(step)?;
    }
    Ok((removed, more))
}

/// Removes counts of minutes before this one; answers whether there are more to remove.
fn counts(step: &Transaction<'_>, table: &str, before: i64) -> rusqlite::Result<bool> {
    // Whole minutes: one that is half removed would tell a wrong number.
    let through: Option<i64> = step
        .prepare_cached(&format!(
            "SELECT max(minute) FROM \
             (SELECT minute FROM {table} WHERE minute < ?1 ORDER BY minute LIMIT ?2)"
        ))?
        .query_row([before, COUNTS_MAX], |row| row.get(0))?;
    let Some(through) = through else {
        return Ok(false);
    };
    step.prepare_cached(&format!("DELETE FROM {table} WHERE minute <= ?1"))?
        .execute([through])?;
    step.prepare_cached(&format!(
        "SELECT EXISTS (SELECT 1 FROM {table} WHERE minute < ?1)"
    ))?
    .query_row([before], |row| row.get(0))
}
