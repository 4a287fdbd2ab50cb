//! Unique keys that stay taken by events that are done, as rows.

use rusqlite::{Connection, Row, params};

use crate::event::{BucketId, BucketKey, EventId, QueueName};
use crate::panics;
use crate::store::embedded::change::{Change, Changes, NamedRows};
use crate::store::embedded::rows::ms;
use crate::store::embedded::sums;
use crate::time::Timestamp;

/// A key, by whom it is taken, and until when.
#[derive(Debug)]
pub(super) struct HeldKey {
    pub(super) bucket: BucketKey,
    pub(super) key: String,
    pub(super) id: EventId,
    pub(super) until: Timestamp,
}

/// Writes that a key stays taken; where it does not any more, its row goes.
pub(super) fn write(
    connection: &Connection,
    bucket: &BucketKey,
    key: &str,
    held: Option<(EventId, Timestamp)>,
) -> rusqlite::Result<()> {
    let (queue, number) = (bucket.queue.as_str(), bucket.bucket.0);
    let Some((id, until)) = held else {
        connection
            .prepare_cached("DELETE FROM uniques WHERE queue = ?1 AND bucket = ?2 AND key = ?3")?
            .execute(params![queue, number, key])?;
        return Ok(());
    };
    let sum = sums::of_unique(bucket, key, id, ms(until));
    connection
        .prepare_cached("INSERT OR REPLACE INTO uniques VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(params![queue, number, key, id.to_bytes(), ms(until), sum])?;
    Ok(())
}

/// Reads every key that stays taken. A row that is damaged says nothing; that is noted in
/// `changes`, and the row goes.
pub(super) fn read(
    connection: &Connection,
    changes: &mut Changes,
) -> rusqlite::Result<Vec<HeldKey>> {
    let mut statement =
        connection.prepare("SELECT *, rowid FROM uniques ORDER BY queue, bucket, until, key")?;
    let mut rows = statement.query([])?;
    let mut held = Vec::new();
    while let Some(row) = rows.next()? {
        match whole(row) {
            Some(key) => held.push(key),
            None => {
                let why = "a unique key that stayed taken is damaged: it is free now".to_owned();
                panics::reported(|| tracing::error!(%why, "embedded store damaged"));
                changes.list.push(Change::Lost { why });
                let (table, number) = (NamedRows::Uniques, row.get(6)?);
                changes.list.push(Change::Unnamed { table, number });
            }
        }
    }
    Ok(held)
}

fn name(row: &Row<'_>) -> Option<(BucketKey, String)> {
    let queue: String = row.get(0).ok()?;
    let bucket = BucketKey::new(QueueName::new(&queue).ok()?, BucketId(row.get(1).ok()?));
    Some((bucket, row.get(2).ok()?))
}

fn whole(row: &Row<'_>) -> Option<HeldKey> {
    let (bucket, key) = name(row)?;
    let id = EventId::from_bytes(row.get(3).ok()?);
    let (until, sum): (i64, i64) = (row.get(4).ok()?, row.get(5).ok()?);
    let is_whole = sum == sums::of_unique(&bucket, &key, id, until);
    is_whole.then(|| HeldKey {
        bucket,
        key,
        id,
        until: Timestamp::from_millis(until.cast_unsigned()),
    })
}
