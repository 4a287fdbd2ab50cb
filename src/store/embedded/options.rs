//! The options of an embedded store.

use std::sync::Arc;

use crate::core::engine::DedupWindow;
use crate::time::{Clock, GuardedClock, SystemClock};

/// Collects the choices for an [`EmbeddedStore`](super::EmbeddedStore).
///
/// # Examples
///
/// ```
/// use duly::store::EmbeddedOptions;
///
/// let options = EmbeddedOptions::new().cache_bytes(256 << 20);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct EmbeddedOptions {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cache_bytes: usize,
    pub(super) pending_bytes: usize,
    pub(super) batch_bytes: usize,
    pub(super) reserve_bytes: u64,
    pub(super) window: DedupWindow,
    pub(super) inline: bool,
}

impl EmbeddedOptions {
    /// The defaults: the machine's clock, and a thread that writes.
    pub fn new() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            cache_bytes: 64 << 20,
            pending_bytes: 64 << 20,
            batch_bytes: 4 << 20,
            reserve_bytes: 32 << 20,
            window: DedupWindow::default(),
            inline: false,
        }
    }

    /// For one thread on a clock that is moved by hand: no thread writes, each operation is on
    /// disk before it returns, and every future is ready.
    pub fn inline() -> Self {
        Self {
            inline: true,
            ..Self::new()
        }
    }

    /// The clock that due times are compared to. Where it panics, the store's time stands still.
    /// Default: the machine's.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        self.on(GuardedClock::shared(clock))
    }

    /// Sets a clock that does not panic.
    pub(crate) fn on(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How many bytes of envelopes are kept in memory beside the file, so that an event that is
    /// due soon after its push is not read back. Default: 64 MiB.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// How many bytes may wait to be written; beyond that pushes and changes of payloads return
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) at once. Default: 64 MiB.
    pub fn pending_max(mut self, bytes: usize) -> Self {
        self.pending_bytes = bytes;
        self
    }

    /// About how many bytes are written in one transaction. Default: 4 MiB, so that nobody waits
    /// for a much longer commit than his own.
    pub fn batch_max(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// How many bytes of disk are held back for the time when it is full, so that what is stored
    /// can still be handled. Default: 32 MiB. On a disk with less room than twice that it is half of
    /// the room, and grows with it.
    ///
    /// The write-ahead log is kept below half of it: when the disk is full, what is in the log
    /// must still find room in the file. A small reserve so means many small copies.
    pub fn reserve_bytes(mut self, bytes: u64) -> Self {
        self.reserve_bytes = bytes;
        self
    }

    /// How many finished events each bucket remembers beyond those that ended within the last
    /// minute, so that a late repeat of their push is recognised. Default: 100,000.
    pub fn finished_max(mut self, events: usize) -> Self {
        self.window.max = events;
        self
    }

    /// How many finished events all buckets remember together, some 100 bytes each; where that
    /// bites, they share it. Default: 1,000,000, a minute at 16,000 events a second.
    pub fn finished_total(mut self, events: usize) -> Self {
        self.window.cap = events;
        self
    }

    /// The whole dedup window: for tests, which cannot wait for a minute.
    #[cfg(any(test, feature = "testing"))]
    pub fn window(mut self, window: DedupWindow) -> Self {
        self.window = window;
        self
    }
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self::new()
    }
}
