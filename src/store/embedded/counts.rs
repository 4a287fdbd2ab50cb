//! Counts of what the file holds.

/// What goes on from transaction to transaction; taken over only when one is committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// How many events the file holds.
    pub(super) events: i64,
    /// All their row numbers in one.
    pub(super) rows: i64,
    /// How many records it holds.
    pub(super) records: i64,
    /// The number of the next record.
    pub(super) next_record: u64,
    /// How many bytes were written of payloads, of pushed events and of others.
    pub(super) bytes: u64,
}
