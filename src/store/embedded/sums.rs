//! Checksums of what SQLite keeps beside the envelopes, as it does not checksum its pages.
//!
//! A flipped bit in a due time would deliver an event early, one in an outcome would write history
//! anew. An envelope carries its own checksum (`codec::wire`).

use xxhash_rust::xxh3::Xxh3;

use crate::event::{BucketKey, EventId, Payload, TraceId};
use crate::record::Record;
use crate::store::Control;
use crate::store::embedded::ledger::Row;

/// Over the columns of an event that change from attempt to attempt, its row and its id.
pub(super) fn of_event(row: Row, due: i64, tries: i64, dead: Option<i64>) -> i64 {
    let mut sum = Sum::default();
    sum.number(row.number).number(row.tag);
    sum.number(due).number(tries);
    sum.number(i64::from(dead.is_some()))
        .number(dead.unwrap_or(0));
    sum.digest()
}

/// Over a whole record and its number. One that tells neither trace nor payload nor who did it has
/// the sum that it had before records could.
pub(super) fn of_record(number: i64, record: &Record) -> i64 {
    let mut sum = Sum::default();
    sum.number(number)
        .bytes(&record.id.to_bytes())
        .bytes(record.queue.as_bytes())
        .text(record.key.as_deref())
        .number(record.attempt.into())
        .text(Some(record.outcome.as_str()))
        .text(record.cause.map(|cause| cause.as_str()));
    let stages = record.stages;
    for time in [
        record.due.as_millis(),
        stages.moved_us,
        stages.fetched_us,
        stages.started_us,
        stages.finished_us,
        record.node.0,
    ] {
        sum.number(time.cast_signed());
    }
    sum.text(record.error.as_deref());
    let trace = record.trace.map(TraceId::to_bytes);
    let payload = record.payload.as_ref().map(Payload::as_bytes);
    if trace.is_some() || payload.is_some() || record.by.is_some() {
        sum.optional(trace.as_ref().map(<[u8; 16]>::as_slice))
            .optional(payload)
            .text(record.by.as_deref());
    }
    sum.digest()
}

/// Over what is set of a queue.
pub(super) fn of_control(queue: &str, control: &Control) -> i64 {
    let mut sum = Sum::default();
    sum.bytes(queue.as_bytes())
        .number(i64::from(control.paused));
    for number in [
        control.workers.map(i64::from),
        control.rate.map(|rate| rate.to_bits().cast_signed()),
        control.buckets.map(i64::from),
    ] {
        sum.number(i64::from(number.is_some()))
            .number(number.unwrap_or(0));
    }
    sum.digest()
}

/// Over a unique key that stays taken.
pub(super) fn of_unique(bucket: &BucketKey, key: &str, id: EventId, until: i64) -> i64 {
    let mut sum = Sum::default();
    sum.bytes(bucket.queue.as_bytes())
        .number(bucket.bucket.0.into())
        .bytes(key.as_bytes())
        .bytes(&id.to_bytes())
        .number(until);
    sum.digest()
}

/// Over the tally: how many rows there are, and all their numbers.
pub(super) fn of_tally(events: i64, rows: i64) -> i64 {
    let mut sum = Sum::default();
    sum.number(events).number(rows);
    sum.digest()
}

/// Over up to where the outbox was trimmed.
pub(super) fn of_outbox(trimmed: i64) -> i64 {
    let mut sum = Sum::default();
    sum.number(trimmed);
    sum.digest()
}

/// What one row adds to the tally: combined with xor, so that the order does not matter.
pub(super) fn of_row(row: i64) -> i64 {
    let mut sum = Sum::default();
    sum.number(row);
    sum.digest()
}

#[derive(Default)]
struct Sum(Xxh3);

impl Sum {
    fn number(&mut self, number: i64) -> &mut Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        // The length keeps two neighbours apart.
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    fn text(&mut self, text: Option<&str>) -> &mut Self {
        self.optional(text.map(str::as_bytes))
    }

    fn optional(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        match bytes {
            Some(bytes) => self.number(1).bytes(bytes),
            None => self.number(0),
        }
    }

    fn digest(&self) -> i64 {
        self.0.digest().cast_signed()
    }
}
