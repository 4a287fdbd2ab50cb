//! Parts: which of them a record belongs to, and how many records each has.
//!
//! Parts follow each other as records are loaded, whenever these finished. The last one grows until
//! it is full, and then another one begins.

use rusqlite::{Connection, OptionalExtension};

/// How many records a part has before the next one begins. What is written of the indexes of keys
/// and traces stays in memory, and whoever looks for one of them looks once in each part.
const FULL: i64 = 500_000;

/// The part that new records go to.
pub(super) fn growing(load: &Connection) -> rusqlite::Result<i64> {
    let (last, records): (i64, i64) = load
        .prepare_cached("SELECT number, records FROM parts ORDER BY number DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if records < FULL {
        return Ok(last);
    }
    load.prepare_cached("INSERT INTO parts (number, records) VALUES (?1, 0)")?
        .execute([last + 1])?;
    Ok(last + 1)
}

/// Notes that a part has so many records more, or fewer.
pub(super) fn count(step: &Connection, part: i64, more: i64) -> rusqlite::Result<()> {
    if more != 0 {
        step.prepare_cached("UPDATE parts SET records = records + ?2 WHERE number = ?1")?
            .execute([part, more])?;
    }
    Ok(())
}

/// Forgets the parts that have no records any more, but for the last one. A count may be damaged,
/// so the indexes that begin with the part have the last word.
pub(super) fn forget_empty(step: &Connection) -> rusqlite::Result<()> {
    let sql = "DELETE FROM parts WHERE records <= 0 AND number < (SELECT max(number) FROM parts) \
         AND NOT EXISTS (SELECT 1 FROM records INDEXED BY by_key \
           WHERE part = parts.number AND key IS NOT NULL) \
         AND NOT EXISTS (SELECT 1 FROM records INDEXED BY by_trace \
           WHERE part = parts.number AND trace IS NOT NULL)";
    step.prepare_cached(sql)?.execute([]).map(drop)
}

/// How many records there are: counting millions would take seconds.
pub(crate) fn total(step: &Connection) -> rusqlite::Result<i64> {
    step.prepare_cached("SELECT total(records) FROM parts")?
        .query_row([], |row| row.get(0))
        .map(|total: f64| total as i64)
}

/// The number of the oldest record, if there is one.
pub(crate) fn oldest_number(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare("SELECT number FROM records ORDER BY finished, number, event LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()
}

/// Every part.
pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    let mut parts = connection.prepare_cached("SELECT number FROM parts ORDER BY number")?;
    parts.query_map([], |row| row.get(0))?.collect()
}
