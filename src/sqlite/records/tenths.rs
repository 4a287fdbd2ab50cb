//! Tenths of a second: in which of them a queue has records.
//!
//! They lead to the records of one queue among those of all: whoever looks for them reads the
//! records of these tenths and skips all others.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::sqlite::records::rows::TABLE;

/// The length of a tenth of a second, in µs.
const LENGTH: i64 = 100_000;

/// The tenth of a second in which a record finished.
pub(super) fn of(finished: i64) -> i64 {
    finished / LENGTH
}

/// Notes that queues have records in tenths.
pub(super) fn note(load: &Connection, found: BTreeSet<(i64, i64)>) -> rusqlite::Result<()> {
    let mut insert = load.prepare_cached("INSERT OR IGNORE INTO tenths VALUES (?1, ?2)")?;
    for (queue, tenth) in found {
        insert.execute([queue, tenth])?;
    }
    Ok(())
}

/// Forgets the tenths before the one in which the last record finished that was removed; returns
/// the queues that they were of.
pub(super) fn forget(step: &Connection, finished: i64) -> rusqlite::Result<BTreeSet<i64>> {
    step.prepare_cached("DELETE FROM tenths WHERE tenth < ?1 RETURNING of_queue")?
        .query_map([of(finished)], |row| row.get(0))?
        .collect()
}

/// What a statement reads from, and its terms, to come by the records of queue `?7` that finished
/// from `?1` to `?4`: in each tenth it begins where that range does, and not before.
pub(super) fn records_of_queue() -> String {
    format!(
        "tenths CROSS JOIN records INDEXED BY {TABLE} \
         ON finished >= max(tenth * {LENGTH}, ?1) AND finished < min((tenth + 1) * {LENGTH}, ?4 + 1) \
         WHERE of_queue = ?7 AND tenth >= ?1 / {LENGTH} AND tenth <= ?4 / {LENGTH}"
    )
}

/// Joins `records` to the tenths of its queue, in either direction.
pub(super) fn join() -> String {
    format!(
        "JOIN tenths ON tenths.of_queue = records.queue
  AND tenths.tenth = records.finished / {LENGTH}
  AND records.finished >= tenths.tenth * {LENGTH}
  AND records.finished < (tenths.tenth + 1) * {LENGTH}"
    )
}
