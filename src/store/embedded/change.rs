//! The changes of an operation that are written to the file.

use std::ops::Range;

use crate::core::engine::Tombstone;
use crate::core::op::UsedAttempts;
use crate::event::{BucketKey, EventId, Payload};
use crate::record::{Cursor, Record};
use crate::store::control::Control;
use crate::store::embedded::row::Row;
use crate::time::Timestamp;

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
    /// The payloads and the error texts of these records are erased.
    Erased(Vec<Cursor>),
    /// Something was set of a queue.
    Controlled { queue: String, control: Control },
    /// A damaged row of a table goes, by its number: what names it may be damaged as well.
    Unnamed { table: NamedRows, number: i64 },
}

/// A table whose rows have names of their own.
#[derive(Clone, Copy, Debug)]
pub(super) enum NamedRows {
    Controls,
    Uniques,
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
    /// How many bytes the new payloads in the list have.
    pub(super) updated_bytes: usize,
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

    pub(super) fn window(&mut self, bucket: &BucketKey) -> &mut WindowChange {
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

/// What an operation did to the dedup window of a bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct WindowChange {
    /// Which bucket; `None`: all of them, for a watermark.
    pub(super) bucket: Option<BucketKey>,
    /// The tombstones that were added, in order.
    pub(super) ended: Vec<Tombstone>,
    /// How many of the oldest were dropped.
    pub(super) dropped: usize,
    /// The watermark, if some were dropped or it was lowered.
    pub(super) until: Option<Timestamp>,
    /// The one of ids whose time was still to come.
    pub(super) ahead: Option<Timestamp>,
}
