//! The size of a record in memory.

use crate::record::Record;

/// What a record takes besides its texts and its payload, about.
const RECORD_BYTES: usize = 256;

/// About how much memory a record takes.
pub(super) fn bytes_of(record: &Record) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let payload = record.payload.as_ref().map_or(0, |payload| payload.len());
    RECORD_BYTES + text(&record.key) + text(&record.error) + text(&record.by) + payload
}
