//! Encoding of records for `COPY ... (FORMAT binary)`.

use std::io::Cursor as Bytes;
use std::pin::pin;

use futures_util::SinkExt;
use tokio_postgres::Transaction;

use super::fault::PgError;
use crate::record::Numbered;

/// The columns of the records table, in the order of writing and reading.
pub(super) const COLUMNS: &str = "finished, number, event, due, moved, fetched, started, node, \
                                  attempt, trace, queue, outcome, cause, key, error, done_by, \
                                  payload";

const COLUMNS_MANY: i16 = 17;

const MAGIC: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The size of a chunk that is passed to the connection.
const PIECE_BYTES: usize = 256 << 10;

/// Copies records into a table with these columns.
pub(super) async fn copy<'a>(
    step: &Transaction<'_>,
    table: &str,
    records: impl Iterator<Item = &'a Numbered>,
) -> Result<(), PgError> {
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

/// Converts a number by which rows are ordered into a signed integer. No clock reaches the largest
/// one.
pub(super) fn ordered(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Encoded rows, ready to be sent.
struct Piece(Vec<u8>);

impl Piece {
    fn record(&mut self, (number, record): &Numbered) {
        let stages = &record.stages;
        self.0.extend(COLUMNS_MANY.to_be_bytes());
        self.number(ordered(stages.finished_us));
        self.number(ordered(*number));
        self.bytes(&record.id.to_bytes());
        // A number that is never ordered keeps its bits.
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
        if !text.contains('\0') {
            self.bytes(text.as_bytes());
        } else {
            self.bytes(storable(text).as_bytes());
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // No value is near 2 GiB: keys, errors and payloads are bounded.
        self.0.extend((bytes.len() as i32).to_be_bytes());
        self.0.extend(bytes);
    }

    fn nothing(&mut self) {
        self.0.extend((-1_i32).to_be_bytes());
    }
}

/// Replaces the zero character, which PostgreSQL cannot store, by the replacement character, so
/// that the record is kept. Queries replace it in the same way.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "\u{FFFD}")
}
