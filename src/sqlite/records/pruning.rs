//! Retention: one step of it, short enough that nobody who writes waits noticeably.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use crate::record::retention::{self, Pace, PruneAllowance, Times};
use crate::record::{Keep, Pruned};
use crate::sqlite::records::rows::Place;
use crate::sqlite::records::rows::comparable;
use crate::sqlite::records::{QueueNumbers, parts, tenths};
use crate::time::Timestamp;

/// How many records one step of a journal removes at most.
pub(crate) const RECORDS_MAX: i64 = 2_000;
/// How many counts of a table one step removes, and then those of the same minute.
const COUNTS_MAX: i64 = 2_000;

/// Removes some of what is beyond `keep` at `now`, by a `clock` of its own, at most `most` of the
/// `total` records there are, and the names of queues of which nothing is left; the transaction is
/// open.
pub(crate) fn prune(
    step: &Connection,
    numbers: &mut QueueNumbers,
    keep: Keep,
    now: Timestamp,
    clock: Timestamp,
    total: i64,
    most: i64,
) -> rusqlite::Result<Pruned> {
    let (mut pruned, mut queues) = (Pruned::default(), BTreeSet::new());
    if let Some(age) = keep.minutes {
        let allowed = allowed(step, Kind::Minutes, age, keep.at_once, [now, clock])?;
        let before = comparable(allowed.before.div_ceil(60_000_000));
        for table in ["minutes", "lateness"] {
            pruned.more |= counts(step, table, before, &mut queues)?;
        }
        pruned.is_held_back |= allowed.is_held_back;
    }
    let mut oldest = 0;
    if let Some(age) = keep.age {
        let allowed = allowed(step, Kind::Records, age, keep.at_once, [now, clock])?;
        oldest = comparable(allowed.before);
        pruned.is_held_back |= allowed.is_held_back;
    }
    let kept = keep.count.map_or(i64::MAX, comparable);
    let excess = total.saturating_sub(kept);
    let (removed, more) = remove_oldest(step, excess, oldest, most, &mut queues)?;
    pruned.records = removed.unsigned_abs();
    pruned.more |= more;
    forget_names(step, queues, numbers)?;
    Ok(pruned)
}

/// Forgets the names of those of `queues` that have no records and no counts any more.
fn forget_names(
    step: &Connection,
    queues: BTreeSet<i64>,
    numbers: &mut QueueNumbers,
) -> rusqlite::Result<()> {
    let mut delete = step.prepare_cached(
        "DELETE FROM queues WHERE number = ?1 \
         AND NOT EXISTS (SELECT 1 FROM tenths WHERE of_queue = ?1) \
         AND NOT EXISTS (SELECT 1 FROM minutes INDEXED BY minutes_by_queue WHERE queue = ?1)",
    )?;
    for queue in queues {
        if delete.execute([queue])? > 0 {
            numbers.clear(); // those in use are read again
        }
    }
    Ok(())
}

/// What has an age of its own.
#[derive(Clone, Copy)]
enum Kind {
    Records,
    Minutes,
}

/// How far a step may go, which is noted.
fn allowed(
    step: &Connection,
    kind: Kind,
    age: Duration,
    at_once: bool,
    [now, clock]: [Timestamp; 2],
) -> rusqlite::Result<PruneAllowance> {
    let name = match kind {
        Kind::Records => "records",
        Kind::Minutes => "minutes",
    };
    let time = |sql: &str| -> rusqlite::Result<Option<u64>> {
        let time: Option<i64> = step.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(time.map(|time| u64::try_from(time).unwrap_or(0)))
    };
    let newest_record = time("SELECT max(finished) FROM records")?;
    let times = Times {
        store: now.as_micros(),
        clock: clock.as_micros(),
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
    let oldest = match kind {
        Kind::Records => "SELECT min(finished) FROM records",
        Kind::Minutes => "SELECT min(minute) * 60000000 FROM minutes",
    };
    let allowed = retention::allowed(age, at_once, times, kept, || time(oldest))?;
    let Pace { set, from, through } = allowed.pace;
    let is_as_before = kept.is_some_and(|kept| (kept.set, kept.from) == (set, from));
    if is_as_before && time(oldest)?.is_none_or(|oldest| oldest >= through) {
        return Ok(allowed); // nothing goes, so there is nothing to note
    }
    step.prepare_cached("INSERT OR REPLACE INTO pruned VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![
            name,
            comparable(set),
            comparable(from),
            comparable(through)
        ])?;
    Ok(allowed)
}

/// Removes the `excess` oldest records, and those that finished before `oldest`, at most `most`;
/// returns how many, and whether there are more to remove. `queues` gets those that may have none
/// left.
fn remove_oldest(
    step: &Connection,
    excess: i64,
    oldest: i64,
    most: i64,
    queues: &mut BTreeSet<i64>,
) -> rusqlite::Result<(i64, bool)> {
    let (mut removed, mut last, mut more) = (0, None, false);
    let mut of_parts: BTreeMap<i64, i64> = BTreeMap::new();
    let mut oldest_first = step.prepare_cached(
        "SELECT finished, number, event, part FROM records \
         ORDER BY finished, number, event LIMIT ?1",
    )?;
    let mut rows = oldest_first.query([most.saturating_add(1)])?;
    while let Some(row) = rows.next()? {
        let place: Place = (row.get(0)?, row.get(1)?, row.get(2)?);
        if removed >= excess && place.0 >= oldest {
            break;
        }
        if removed == most {
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
        queues.extend(tenths::forget(step, finished)?);
    }
    Ok((removed, more))
}

/// Removes counts of minutes before this one; returns whether there are more to remove. `queues` gets
/// those that may have none left.
fn counts(
    step: &Connection,
    table: &str,
    before: i64,
    queues: &mut BTreeSet<i64>,
) -> rusqlite::Result<bool> {
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
    let sql = format!("DELETE FROM {table} WHERE minute <= ?1 RETURNING queue");
    let mut delete = step.prepare_cached(&sql)?;
    for queue in delete.query_map([through], |row| row.get(0))? {
        queues.insert(queue?);
    }
    step.prepare_cached(&format!(
        "SELECT EXISTS (SELECT 1 FROM {table} WHERE minute < ?1)"
    ))?
    .query_row([before], |row| row.get(0))
}
