//! Erasing what records hold of a person: payloads and error texts.

use rusqlite::{Connection, OptionalExtension, params};

use crate::record::Cursor;
use crate::sqlite::records::queue_names::{Names, name_of};
use crate::sqlite::records::rows::{self, COLUMNS, at, comparable};

/// Erases payload and error of the records at these places, within an open transaction; those that
/// are not there are left out. A row whose checksum does not hold is erased, too, and stays damaged.
pub(crate) fn erase(connection: &Connection, places: &[Cursor]) -> rusqlite::Result<()> {
    const PLACE: &str = "finished = ?1 AND number = ?2 AND event = ?3";
    let select = format!("SELECT {COLUMNS} FROM records WHERE {PLACE}");
    let update = format!(
        "UPDATE records SET error = NULL, payload = NULL, sum = coalesce(?4, sum) WHERE {PLACE}"
    );
    let mut select = connection.prepare_cached(&select)?;
    let mut update = connection.prepare_cached(&update)?;
    let mut names = Names::new();
    for place in places {
        let (finished, number) = (comparable(place.finished_us), comparable(place.number));
        let event = place.id.to_bytes();
        let found = select.query_row(params![finished, number, event], |row| {
            let name = match row.get(at::QUEUE) {
                Ok(queue) => name_of(connection, &mut names, queue)?,
                Err(_) => None,
            };
            Ok(name.and_then(|name| rows::read(row, name)))
        });
        let Some(found) = found.optional()? else {
            continue;
        };
        let sum = found.map(|(_, mut record)| {
            record.erase();
            rows::sum(number, &record)
        });
        update.execute(params![finished, number, event, sum])?;
    }
    Ok(())
}
