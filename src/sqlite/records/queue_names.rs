//! Queues, which records have as numbers.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};

use crate::event::QueueName;

/// Names of queues by their numbers, in one transaction: a number may be another queue's later.
pub(super) type Names = HashMap<i64, QueueName>;

/// The most queues whose name is kept in memory.
const NAMES_MAX: usize = 1_024;

/// The number of a queue, if it has any record.
pub(super) fn number_of(
    connection: &Connection,
    name: &QueueName,
) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT number FROM queues WHERE name = ?1")?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()
}

/// The name of a queue; `None` when there is none, or it is no name.
pub(super) fn name_of(
    connection: &Connection,
    names: &mut Names,
    number: i64,
) -> rusqlite::Result<Option<QueueName>> {
    if let Some(name) = names.get(&number) {
        return Ok(Some(name.clone()));
    }
    let name: Option<String> = connection
        .prepare_cached("SELECT name FROM queues WHERE number = ?1")?
        .query_row([number], |row| row.get(0))
        .optional()?;
    let name = name.and_then(|name| QueueName::new(&name).ok());
    if names.len() >= NAMES_MAX {
        names.clear(); // those in use are read again
    }
    if let Some(name) = &name {
        names.insert(number, name.clone());
    }
    Ok(name)
}
