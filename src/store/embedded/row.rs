//! The place of an event in the file.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::event::EventId;

/// The numbers that rows have; they count up from one, and the end is never reached.
pub(super) const NUMBERS: Range<i64> = 1..1 << 53;

/// Where an envelope lies in the file, and whose it is; the engine keeps the number.
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
