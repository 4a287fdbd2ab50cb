//! Reading the newest records, for a store that starts.

use rusqlite::{Connection, OptionalExtension, params};

use crate::record::Record;
use crate::sqlite::records::queue_names::{Names, name_of};
use crate::sqlite::records::rows::Place;
use crate::sqlite::records::rows::{self, COLUMNS, at};

/// Passes the newest `many` records to `each`, the oldest of them first; those that are damaged are
/// skipped. Returns how many it has read, with those.
pub(crate) fn read_newest(
    connection: &Connection,
    many: i64,
    mut each: impl FnMut(u64, Record),
) -> rusqlite::Result<i64> {
    let place = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Place> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    };
    let boundary = connection
        .prepare(
            "SELECT finished, number, event FROM records \
             ORDER BY finished DESC, number DESC, event DESC LIMIT 1 OFFSET ?1",
        )?
        .query_row([many], place)
        .optional()?;
    let (finished, number, event) = match boundary {
        Some((finished, number, event)) => (finished, number, event.to_vec()),
        None => (i64::MIN, i64::MIN, Vec::new()),
    };
    let mut newest = connection.prepare(&format!(
        "SELECT {COLUMNS} FROM records WHERE (finished, number, event) > (?1, ?2, ?3) \
         ORDER BY finished, number, event"
    ))?;
    let mut rows = newest.query(params![finished, number, event])?;
    let mut names = Names::new();
    let mut read = 0;
    while let Some(row) = rows.next()? {
        read += 1;
        let queue: Option<i64> = row.get(at::QUEUE).ok();
        let queue = match queue {
            Some(queue) => name_of(connection, &mut names, queue)?,
            None => None,
        };
        if let Some((number, record)) = queue.and_then(|queue| rows::read(row, queue)) {
            each(number, record);
        }
    }
    Ok(read)
}
