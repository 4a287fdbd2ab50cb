//! Events that were pushed, written as rows.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::store::embedded::change::{Change, Changes};
use crate::store::embedded::counts::Counts;
use crate::store::embedded::row::Row;
use crate::store::embedded::rows::ms;
use crate::store::embedded::sums;
use crate::time::Timestamp;

/// How many events one statement adds where there are many: to begin and end a statement takes a
/// third of the time of a row.
const AT_ONCE: usize = 16;

static ONE: LazyLock<String> = LazyLock::new(|| insert_sql(1));
static MANY: LazyLock<String> = LazyLock::new(|| insert_sql(AT_ONCE));

fn insert_sql(rows: usize) -> String {
    let rows = vec!["(?, ?, 0, NULL, ?, ?)"; rows].join(", ");
    // In this form SQLite keeps no copy of the pages that the statement changes.
    format!("INSERT OR ROLLBACK INTO events VALUES {rows}")
}

/// Writes what was added, and counts it; the transaction is open.
pub(super) fn write<'a>(
    connection: &Connection,
    counts: &mut Counts,
    batch: impl Iterator<Item = &'a Changes>,
) -> rusqlite::Result<()> {
    let mut added = batch.flat_map(|changes| {
        let list = changes.list.iter();
        list.filter_map(|change| match change {
            Change::Added { row, due, body } => Some((*row, *due, &changes.bytes[body.clone()])),
            _ => None,
        })
    });
    let mut rows = Vec::with_capacity(AT_ONCE);
    loop {
        rows.clear();
        rows.extend(added.by_ref().take(AT_ONCE));
        if rows.len() == AT_ONCE {
            insert(connection, counts, &MANY, &rows)?;
            continue;
        }
        for row in &rows {
            insert(connection, counts, &ONE, std::slice::from_ref(row))?;
        }
        return Ok(());
    }
}

/// Inserts as many events as the statement takes.
fn insert(
    connection: &Connection,
    counts: &mut Counts,
    sql: &str,
    rows: &[(Row, Timestamp, &[u8])],
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(sql)?;
    for (at, (row, due, body)) in rows.iter().enumerate() {
        let (due, first) = (ms(*due), 1 + 4 * at);
        statement.raw_bind_parameter(first, row.number)?;
        statement.raw_bind_parameter(first + 1, due)?;
        statement.raw_bind_parameter(first + 2, sums::of_event(*row, due, 0, None))?;
        statement.raw_bind_parameter(first + 3, *body)?;
        counts.events += 1;
        counts.bytes += body.len() as u64;
        counts.rows ^= sums::of_row(row.number);
    }
    statement.raw_execute()?;
    Ok(())
}
