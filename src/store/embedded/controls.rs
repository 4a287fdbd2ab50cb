//! The settings of queues, as rows.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};

use crate::event::QueueName;
use crate::panics;
use crate::store::control::Control;
use crate::store::embedded::change::{Change, Changes, NamedRows};
use crate::store::embedded::sums;

/// Writes what is set of a queue; where nothing is, its row goes.
pub(super) fn write(
    connection: &Connection,
    queue: &str,
    control: &Control,
) -> rusqlite::Result<()> {
    if *control == Control::default() {
        connection
            .prepare_cached("DELETE FROM controls WHERE queue = ?1")?
            .execute([queue])?;
        return Ok(());
    }
    connection
        .prepare_cached("INSERT OR REPLACE INTO controls VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(params![
            queue,
            control.paused,
            control.workers,
            control.rate,
            control.buckets,
            sums::of_control(queue, control),
        ])?;
    Ok(())
}

/// Reads everything that is set. A row that is damaged says nothing; that is noted in `changes`,
/// and the row goes.
pub(super) fn read(
    connection: &Connection,
    changes: &mut Changes,
) -> rusqlite::Result<BTreeMap<QueueName, Control>> {
    let mut statement = connection.prepare("SELECT *, rowid FROM controls ORDER BY queue")?;
    let mut rows = statement.query([])?;
    let mut controls = BTreeMap::new();
    while let Some(row) = rows.next()? {
        if let Some((queue, control)) = whole(row) {
            controls.insert(queue, control);
            continue;
        }
        // A damaged name may be no text at all.
        let queue = row.get_ref(0)?.as_bytes_or_null().unwrap_or_default();
        let queue = String::from_utf8_lossy(queue.unwrap_or_default()).into_owned();
        let why = format!("what was set of queue {queue:?} is damaged: nothing is set of it now");
        panics::reported(|| tracing::error!(%why, "embedded store damaged"));
        changes.list.push(Change::Lost { why });
        let (table, number) = (NamedRows::Controls, row.get(6)?);
        changes.list.push(Change::Unnamed { table, number });
    }
    Ok(controls)
}

fn whole(row: &Row<'_>) -> Option<(QueueName, Control)> {
    let queue: String = row.get(0).ok()?;
    let control = Control {
        paused: row.get(1).ok()?,
        workers: row.get(2).ok()?,
        rate: row.get(3).ok()?,
        buckets: row.get(4).ok()?,
    };
    let sum: i64 = row.get(5).ok()?;
    let is_whole = sum == sums::of_control(&queue, &control);
    Some((QueueName::new(&queue).ok()?, control)).filter(|_| is_whole)
}
