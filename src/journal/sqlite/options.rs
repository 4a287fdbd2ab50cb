//! Options of a journal in a file.

/// Collects the choices for a [`SqliteJournal`](super::SqliteJournal).
///
/// # Examples
///
/// ```
/// use duly::journal::SqliteOptions;
///
/// let options = SqliteOptions::new().cache_bytes(256 << 20);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a journal is opened with them"]
pub struct SqliteOptions {
    pub(super) cache_bytes: usize,
}

impl SqliteOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            cache_bytes: 64 << 20,
        }
    }

    /// How much of the file the writing thread keeps in memory at most, in bytes; the reading
    /// thread keeps a quarter of it. Default: 64 MiB, the places in the indexes to which the
    /// records of some hours go.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new()
    }
}
