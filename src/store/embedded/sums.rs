//! Checksums of what SQLite keeps beside the envelopes, as it does not checksum its pages.
//!
//! A flipped bit in a due time would deliver an event early, one in an outcome would write history
//! anew. An envelope carries its own checksum (`codec::wire`), a record as well (`sqlite/records`).

use crate::event::{BucketKey, EventId};
use crate::sqlite::Sum;
use crate::store::control::Control;
use crate::store::embedded::row::Row;

/// Over the columns of an event that change from attempt to attempt, its row and its id.
pub fn of_event(row: Row, due: i64, tries: i64, dead: Option<i64>) -> i64 {
    let mut sum = Sum::default();
    sum.number(row.number).number(row.tag);
    sum.number(due).number(tries);
    sum.number(i64::from(dead.is_some()))
        .number(dead.unwrap_or(0));
    sum.digest()
}

/// Over what is set of a queue.
pub fn of_control(queue: &str, control: &Control) -> i64 {
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

/// What one row adds to the tally: combined with xor, so that the order does not matter.
pub(super) fn of_row(row: i64) -> i64 {
    let mut sum = Sum::default();
    sum.number(row);
    sum.digest()
}
