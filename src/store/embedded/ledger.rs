//! What the reference store decided, as changes to write.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::codec::wire;
use crate::core::op::{ChangeSink, UsedAttempts};
use crate::core::reference::Tombstone;
use crate::event::{BucketKey, Envelope, EventId, Payload};
use crate::record::Record;
use crate::store::control::Control;
use crate::store::embedded::cache::Cache;
use crate::store::embedded::tombstones::WindowChange;
use crate::time::Timestamp;

/// The numbers that rows have; they count up from one, and the end is never reached.
pub(super) const NUMBERS: Range<i64> = 1..1 << 53;

/// Where an envelope lies in the file, and whose it is; the reference store keeps the number.
///
/// The number alone would not do: a damaged tree may answer with another row than was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Counts up from one, in order of arrival.
    pub(super) number: i64,
    /// Half a hash of the event's id.
    pub(super) tag: i64,
}

impl Row {
    /// The row with this number, of the event `id`.
    pub fn new(number: i64, id: EventId) -> Self {
        let tag = xxh3_64(&id.to_bytes()).cast_signed();
        Self { number, tag }
    }

    /// Whether the row is that of the event `id`.
    pub(super) fn is_of(self, id: EventId) -> bool {
        self == Self::new(self.number, id)
    }
}

/// One thing to remember.
#[derive(Debug)]
pub(super) enum Change {
    /// An event; its envelope's bytes lie here in [`Changes::bytes`].
    Added {
        row: Row,
        due: Timestamp,
        body: Range<usize>,
    },
    /// A row waits for this due time and has used up so many attempts.
    Stands {
        row: Row,
        due: Timestamp,
        used: UsedAttempts,
    },
    /// A row became a dead letter; its due time stays as it was.
    Dead { row: Row, at: Timestamp, tries: u16 },
    /// A row has another payload.
    Updated { row: Row, payload: Payload },
    /// A row is over.
    Removed(Row),
    /// A row's bytes are damaged: it is set aside before it is removed.
    Damaged { row: Row, why: String },
    /// Something is gone, and nobody knows what it was.
    Lost { why: String },
    /// A line of history, the next one of [`Changes::records`]; it tells as well what the envelope in
    /// the row has to tell, if one is named.
    Recorded { telling: Option<Row> },
    /// A unique key stays taken by an event that is done, until then; or not any more.
    UniqueHeld {
        bucket: BucketKey,
        key: String,
        held: Option<(EventId, Timestamp)>,
    },
    /// Something was set of a queue.
    Controlled { queue: String, control: Control },
}

/// All changes of one operation, in the order of its decisions.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) list: Vec<Change>,
    /// The records of all lines of history, side by side: the writer comes to them long after, when
    /// each on its own would have left the processor's cache.
    pub(super) records: Vec<Record>,
    /// The bytes of all envelopes, one after the other: one allocation an operation.
    pub(super) bytes: Vec<u8>,
    /// The events that are held until these changes are written.
    pub(super) held: Vec<EventId>,
    /// Whether bodies are among them, which the cache holds until they are written.
    pub(super) have_bodies: bool,
    /// What happened to the dedup window of the bucket.
    pub(super) window: Option<Box<WindowChange>>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.window.is_none()
    }

    fn window(&mut self, bucket: &BucketKey) -> &mut WindowChange {
        let window = self.window.get_or_insert_default();
        window.bucket.get_or_insert_with(|| bucket.clone());
        window
    }

    /// Adds a line of history, which tells as well what the envelope in a row has to tell.
    pub(super) fn record(&mut self, record: Record, telling: Option<Row>) {
        self.records.push(record);
        self.list.push(Change::Recorded { telling });
    }
}

/// Takes down what the reference store decides.
#[derive(Debug)]
pub(super) struct Scribe<'a> {
    cache: &'a Mutex<Cache>,
    pub(super) changes: Changes,
}

impl<'a> Scribe<'a> {
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

impl ChangeSink for Scribe<'_> {
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

    fn forgot(&mut self, bucket: &BucketKey, many: usize, until: Option<Timestamp>) {
        let window = self.changes.window(bucket);
        window.dropped += many;
        window.until = until;
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
