//! Features that some of the allowed versions of SQLite lack: another package of a program may need an
//! older one, and a program has one.

/// Whether `PRAGMA wal_checkpoint(NOOP)` says how large the log is; older ones take the word for a
/// passive checkpoint.
pub(crate) fn says_size_of_log() -> bool {
    rusqlite::version_number() >= 3_051_000
}
