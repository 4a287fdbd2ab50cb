//! Options of a Redis store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::core::engine::DedupWindow;
use crate::time::Clock;

/// Options of a [`RedisStore`](crate::store::RedisStore).
#[derive(Clone)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct RedisOptions {
    pub(super) window: DedupWindow,
    pub(super) records_max: usize,
    pub(super) records_total: usize,
    pub(super) retry_for: Duration,
    pub(super) pending_max: usize,
    pub(super) clock: Option<Arc<dyn Clock>>,
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("window", &self.window)
            .field("records_max", &self.records_max)
            .field("records_total", &self.records_total)
            .field("retry_for", &self.retry_for)
            .field("pending_max", &self.pending_max)
            .finish_non_exhaustive()
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl RedisOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self {
            window: DedupWindow {
                max: 10_000,
                ..DedupWindow::default()
            },
            records_max: 25_000,
            records_total: 5_000_000,
            retry_for: Duration::from_secs(2),
            pending_max: 64 << 20,
            clock: None,
        }
    }

    /// Sets how many tombstones of ended events each bucket keeps beyond those of the last minute,
    /// to recognise a late repeat of a push or a settle; some 130 bytes each. An id that is older
    /// than the newest forgotten one is refused as too old. A tombstone is removed after a day in
    /// any case. Default: 10,000.
    pub fn finished_max(mut self, many: usize) -> Self {
        self.window.max = many;
        self
    }

    /// Sets the cap of tombstones in all buckets together, including those of the last minute: each
    /// bucket has an equal share, at least 1,000. Default: 1,000,000, which is a minute at 16,000
    /// events a second and some 130 MB of the servers' memory.
    pub fn finished_total(mut self, many: usize) -> Self {
        self.window.cap = many;
        self
    }

    /// Sets the whole dedup window: for tests, which cannot wait for a minute.
    #[cfg(any(test, feature = "testing"))]
    pub fn window(mut self, window: DedupWindow) -> Self {
        self.window = window;
        self
    }

    /// Sets how many records wait in the outbox of each bucket, at least 1,000, unless an
    /// [`OutboxLimit`](crate::store::OutboxLimit) is set, here or by another process that asks for
    /// more; some 90 bytes each, and their payload where it is kept. Default: 25,000.
    pub fn records_max(mut self, many: usize) -> Self {
        self.records_max = many.max(crate::core::op::BATCH_MAX);
        self
    }

    /// Sets the cap of records in all outboxes together: each bucket has an equal share, at least
    /// 1,000, even if an [`OutboxLimit`](crate::store::OutboxLimit) allows more. Default:
    /// 5,000,000, which is some 450 MB of the servers' memory, and their payloads where they are
    /// kept.
    pub fn records_total(mut self, many: usize) -> Self {
        self.records_total = many;
        self
    }

    /// Sets how long a push is retried while the servers do not respond; this is safe, as it
    /// carries its ids. Default: 2 s.
    pub fn retry_for(mut self, span: Duration) -> Self {
        self.retry_for = span;
        self
    }

    /// Sets how many bytes of events may be in flight to the servers; beyond that, and beyond
    /// 131,072 events, a push fails with [`Full`](crate::ErrorKind::Full) at once. A bucket may
    /// take as much as it leaves free, so that one whose server has stopped does not block the
    /// others. Default: 64 MiB.
    pub fn pending_max(mut self, bytes: usize) -> Self {
        self.pending_max = bytes;
        self
    }

    /// Replaces the servers' time by `clock`: for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(crate::time::GuardedClock::shared(clock));
        self
    }
}
