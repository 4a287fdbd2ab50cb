//! The sink of the engine's decisions: it turns them into changes to write.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::codec::wire;
use crate::core::engine::Tombstone;
use crate::core::op::{ChangeSink, ForgottenIds, UsedAttempts};
use crate::event::{BucketKey, Envelope, EventId, Payload};
use crate::record::Record;
use crate::store::embedded::cache::Cache;
use crate::store::embedded::change::{Change, Changes};
use crate::store::embedded::row::Row;
use crate::time::Timestamp;

/// Takes down what the engine decides.
#[derive(Debug)]
pub(super) struct ChangeRecorder<'a> {
    cache: &'a Mutex<Cache>,
    pub(super) changes: Changes,
}

impl<'a> ChangeRecorder<'a> {
    pub(super) fn new(cache: &'a Mutex<Cache>) -> Self {
        Self {
            cache,
            changes: Changes::default(),
        }
    }

    fn cache(&self) -> parking_lot::MutexGuard<'_, Cache> {
        self.cache.lock()
    }
}

impl ChangeSink for ChangeRecorder<'_> {
    /// The number of its row.
    type Body = i64;

    /// Nobody may lease an event that a power cut could still take back.
    const CONFIRMS: bool = true;

    fn added(&mut self, envelope: &Arc<Envelope>, due: Timestamp) -> i64 {
        let row = self.cache().add(envelope);
        let from = self.changes.bytes.len();
        wire::encode(envelope, &mut self.changes.bytes);
        let body = from..self.changes.bytes.len();
        self.changes.held.push(envelope.id);
        self.changes.have_bodies = true;
        self.changes.list.push(Change::Added { row, due, body });
        row.number
    }

    fn changed(&mut self, id: EventId, number: &i64, due: Timestamp, used: UsedAttempts) {
        self.changes.list.push(Change::Stands {
            row: Row::new(*number, id),
            due,
            used,
        });
    }

    fn updated(&mut self, id: EventId, number: &mut i64, payload: &Payload) {
        let row = Row::new(*number, id);
        self.cache().update(row, payload);
        self.changes.have_bodies = true;
        self.changes.updated_bytes += payload.len();
        self.changes.list.push(Change::Updated {
            row,
            payload: payload.clone(),
        });
    }

    fn buried(&mut self, id: EventId, number: &i64, at: Timestamp, tries: u16) {
        self.changes.list.push(Change::Dead {
            row: Row::new(*number, id),
            at,
            tries,
        });
    }

    fn revived(&mut self, id: EventId, number: &i64, due: Timestamp) {
        self.changes.list.push(Change::Stands {
            row: Row::new(*number, id),
            due,
            used: UsedAttempts::default(),
        });
    }

    fn removed(&mut self, id: EventId, number: &i64) {
        let row = Row::new(*number, id);
        self.cache().forget(row);
        self.changes.list.push(Change::Removed(row));
    }

    fn ended(&mut self, bucket: &BucketKey, tombstone: Tombstone) {
        self.changes.window(bucket).ended.push(tombstone);
    }

    fn forgot(&mut self, bucket: &BucketKey, many: usize, ids: ForgottenIds) {
        let window = self.changes.window(bucket);
        window.dropped += many;
        (window.until, window.ahead) = (ids.until, ids.ahead);
    }

    fn unique_held(&mut self, bucket: &BucketKey, key: &str, held: Option<(EventId, Timestamp)>) {
        self.changes.list.push(Change::UniqueHeld {
            bucket: bucket.clone(),
            key: key.to_owned(),
            held,
        });
    }

    fn recorded(&mut self, record: Record, telling: Option<&i64>) {
        let telling = telling.map(|number| Row::new(*number, record.id));
        self.changes.record(record, telling);
    }
}
