//! Records as `COPY ... (FORMAT binary)` takes them.

use std::io::Cursor as Bytes;
use std::pin::pin;

use futures_util::SinkExt;
use tokio_postgres::Transaction;

use super::fault::Fault;
use crate::record::Numbered;

/// The columns of the table of records, in the order in which they are written and read.
pub(super) const COLUMNS: &str = "finished, number, event, due, moved, fetched, started, node, \
                                  attempt, trace, queue, outcome, cause, key, error, done_by, \
                                  payload";

const COLUMNS_MANY: i16 = 17;

const MAGIC: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// How many bytes are handed to the connection at once.
const PIECE_BYTES: usize = 256 << 10;

/// Copies records into a table that has the columns.
pub(super) async fn copy<'a>(
    step: &Transaction<'_>,
    table: &str,
    records: impl Iterator<Item = &'a Numbered>,
) -> Result<(), Fault> {
    let sql = format!("COPY {table} ({COLUMNS}) FROM STDIN (FORMAT binary)");
    let mut sink = pin!(step.copy_in::<_, Bytes<Vec<u8>>>(&sql).await?);
    let mut piece = Piece(MAGIC.to_vec());
    for numbered in records {
        piece.record(numbered);
        if piece.0.len() >= PIECE_BYTES {
            let full = std::mem::take(&mut piece.0);
            sink.feed(Bytes::new(full)).await?;
        }
    }
    piece.0.extend((-1_i16).to_be_bytes());
    sink.send(Bytes::new(piece.0)).await?;
    sink.finish().await?;
    Ok(())
}

/// What is put in order: an integer with a sign. No clock reaches the largest one.
pub(super) fn ordered(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Some rows, as they are sent.
struct Piece(Vec<u8>);

impl Piece {
    fn record(&mut self, (number, record): &Numbered) {
        let stages = &record.stages;
        self.0.extend(COLUMNS_MANY.to_be_bytes());
        self.number(ordered(stages.finished_us));
        self.number(ordered(*number));
        self.bytes(&record.id.to_bytes());
        // The bits of what is not put in order are kept as they are.
        self.number(record.due.as_millis() as i64);
        self.number(stages.moved_us as i64);
        self.number(stages.fetched_us as i64);
        self.number(stages.started_us as i64);
        self.number(record.node.0 as i64);
        self.bytes(&i32::from(record.attempt).to_be_bytes());
        match &record.trace {
            Some(trace) => self.bytes(&trace.to_bytes()),
            None => self.nothing(),
        }
        self.text(&record.queue);
        self.text(record.outcome.as_str());
        self.optional(record.cause.map(|cause| cause.as_str()));
        self.optional(record.key.as_deref());
        self.optional(record.error.as_deref());
        self.optional(record.by.as_deref());
        match &record.payload {
            Some(payload) => self.bytes(payload.as_bytes()),
            None => self.nothing(),
        }
    }

    fn number(&mut self, number: i64) {
        self.bytes(&number.to_be_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.nothing(),
        }
    }

    fn text(&mut self, text: &str) {
        match text.contains('\0') {
            false => self.bytes(text.as_bytes()),
            true => self.bytes(storable(text).as_bytes()),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // None is near 2 GiB: keys, errors and payloads have bounds.
        self.0.extend((bytes.len() as i32).to_be_bytes());
        self.0.extend(bytes);
    }

    fn nothing(&mut self) {
        self.0.extend((-1_i32).to_be_bytes());
    }
}

/// A text as PostgreSQL can hold it, which knows no character zero: that becomes the replacement
/// character, so that the record is kept, and found by what is asked in the same way.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "\u{FFFD}")
}
