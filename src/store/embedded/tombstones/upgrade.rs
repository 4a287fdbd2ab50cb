//! The tombstones of a file that has none.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rusqlite::Connection;

use crate::codec::wire;
use crate::core::engine::Tombstone;
use crate::event::{BucketKey, EventId, State};
use crate::record::Outcome;
use crate::sqlite::records;
use crate::store::embedded::change::Changes;
use crate::store::embedded::tombstones::{TombstoneRows, WindowChange};
use crate::time::Timestamp;

/// How many of the last records are read.
const RECORDS_READ: i64 = 500_000;
/// How many buckets a queue has unless it is set.
const BUCKETS: u16 = 8;

/// Writes what the newest records say of events that have ended: for a file whose tombstones were
/// only there. Of an envelope they say nothing, so any push of such an id is a duplicate.
pub(in crate::store::embedded) fn write_of_records(
    connection: &Connection,
) -> rusqlite::Result<()> {
    let live = live(connection)?;
    let mut windows: BTreeMap<BucketKey, WindowChange> = BTreeMap::new();
    let mut oldest = None;
    let has_older = records::read_newest(connection, RECORDS_READ, |_, record| {
        oldest.get_or_insert(record.stages.finished_us);
        // Its end was forgotten, and it was pushed again.
        if live.contains(&record.id) {
            return;
        }
        let (state, tries) = match record.outcome {
            // The attempt that ended it did not fail.
            Outcome::Acked => (State::Done, record.attempt.saturating_sub(1)),
            Outcome::Discarded => (State::Discarded, record.attempt.saturating_sub(1)),
            Outcome::Cancelled | Outcome::Dropped => (State::Cancelled, 0),
            Outcome::Expired => (State::Expired, 0),
            // It goes on, or waits as a dead letter.
            _ => return,
        };
        let tombstone = Tombstone {
            id: record.id,
            state,
            fingerprint: None,
            due: record.due,
            tries,
            maybe_running: false,
            settled: None,
            ended_us: record.stages.finished_us,
        };
        // A record does not say where its event was: it may have been in either.
        let buckets = BTreeSet::from([record.id.bucket(), record.id.place(BUCKETS)]);
        for bucket in buckets {
            let bucket = BucketKey::new(record.queue.clone(), bucket);
            windows.entry(bucket).or_default().ended.push(tombstone);
        }
    })?;
    // An id is made before its event ends, so younger ids are all in what was read.
    let until = oldest.filter(|_| has_older);
    let all = WindowChange {
        until: until.map(|finished_us| Timestamp::from_millis(finished_us / 1_000)),
        ..WindowChange::default()
    };
    let of_buckets = windows.into_iter().map(|(bucket, window)| WindowChange {
        bucket: Some(bucket),
        ..window
    });
    let changes = of_buckets.chain([all]).map(|window| Changes {
        window: Some(Box::new(window)),
        ..Changes::default()
    });
    let changes: Vec<Changes> = changes.collect();
    let now = Timestamp::EPOCH; // nobody asks when they were written
    TombstoneRows::default()
        .write(connection, changes.iter(), now)
        .map(drop)
}

/// The events that have not ended.
fn live(connection: &Connection) -> rusqlite::Result<HashSet<EventId>> {
    let mut statement = connection.prepare("SELECT body FROM events")?;
    let mut rows = statement.query([])?;
    let mut live = HashSet::new();
    while let Some(row) = rows.next()? {
        let body = row.get_ref(0)?.as_blob().unwrap_or_default();
        live.extend(wire::id_in(body));
    }
    Ok(live)
}
