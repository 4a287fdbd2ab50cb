//! Retention: one step of it, short enough that no load waits noticeably.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{OptionalExtension, Transaction, params};

use crate::error::Result;
use crate::journal::retention::{self, Allowed, Pace, Times};
use crate::journal::sqlite::loading::Writer;
use crate::journal::sqlite::paging::Place;
use crate::journal::sqlite::rows::comparable;
use crate::journal::sqlite::{fault, parts, schema};
use crate::journal::{Keep, Pruned};
use crate::time::Timestamp;

/// How many records one step removes at most.
const RECORDS_MAX: i64 = 2_000;
/// How many counts of a table one step removes, and then those of the same minute.
const COUNTS_MAX: i64 = 2_000;

impl Writer {
    /// Removes some of what is beyond `keep` at `now`, in one transaction.
    pub(super) fn prune(&mut self, keep: Keep, now: Timestamp) -> Result<Pruned> {
        let step = schema::begin(&mut self.connection)?;
        let prune = |step: Transaction<'_>| -> rusqlite::Result<Pruned> {
            let mut pruned = Pruned::default();
            if let Some(age) = keep.minutes {
                let allowed = allowed(&step, Kind::Minutes, age, keep.at_once, now)?;
                let before = comparable(allowed.before.div_ceil(60_000_000));
                pruned.more |= counts(&step, "minutes", before)?;
                pruned.more |= counts(&step, "lateness", before)?;
                pruned.is_held_back |= allowed.is_held_back;
            }
            let mut oldest = 0;
            if let Some(age) = keep.age {
                let allowed = allowed(&step, Kind::Records, age, keep.at_once, now)?;
                oldest = comparable(allowed.before);
                pruned.is_held_back |= allowed.is_held_back;
            }
            let (removed, more) = records(&step, keep.count, oldest)?;
            step.commit()?;
            pruned.records = removed.unsigned_abs();
            pruned.more |= more;
            Ok(pruned)
        };
        prune(step).map_err(fault::at_write)
    }
}

/// What has an age of its own.
#[derive(Clone, Copy)]
enum Kind {
    Records,
    Minutes,
}

/// How far a step may go, which is noted.
fn allowed(
    step: &Transaction<'_>,
    kind: Kind,
    age: Duration,
    at_once: bool,
    now: Timestamp,
) -> rusqlite::Result<Allowed> {
    let name = match kind {
        Kind::Records => "records",
        Kind::Minutes => "minutes",
    };
    let time = |sql: &str| -> rusqlite::Result<Option<u64>> {
        let time: Option<i64> = step.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(time.map(|time| u64::try_from(time).unwrap_or(0)))
    };
    let newest_record = time("SELECT max(finished) FROM records")?;
    let clock = time("SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER)")?;
    let times = Times {
        asked: now.as_micros(),
        clock: clock.unwrap_or_default(),
        newest: match kind {
            Kind::Records => newest_record,
            Kind::Minutes => newest_record.max(time(
                "SELECT max(minute) * 60000000 + 60000000 FROM minutes",
            )?),
        },
    };
    let kept = step
        .prepare_cached("SELECT since, begun, through FROM pruned WHERE what = ?1")?
        .query_row([name], |row| {
            let time = |at| {
                row.get::<_, i64>(at)
                    .map(|it| u64::try_from(it).unwrap_or(0))
            };
            Ok(Pace {
                set: time(0)?,
                from: time(1)?,
                through: time(2)?,
            })
        })
        .optional()?;
    let allowed = retention::allowed(age, at_once, times, kept, || match kind {
        Kind::Records => time("SELECT min(finished) FROM records"),
        Kind::Minutes => time("SELECT min(minute) * 60000000 FROM minutes"),
    })?;
    let Pace { set, from, through } = allowed.pace;
    step.prepare_cached("INSERT OR REPLACE INTO pruned VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![
            name,
            comparable(set),
            comparable(from),
            comparable(through)
        ])?;
    Ok(allowed)
}

/// Removes the oldest records beyond a count, and those before a time; answers how many, and
/// whether there are more to remove.
fn records(
    step: &Transaction<'_>,
    count: Option<u64>,
    oldest: i64,
) -> rusqlite::Result<(i64, bool)> {
    let most = count.map_or(i64::MAX, comparable);
    let excess = parts::total(step)?.saturating_sub(most).max(0);
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
