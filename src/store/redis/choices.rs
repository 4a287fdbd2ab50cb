//! The choices for a Redis store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::time::Clock;

/// The choices for a [`RedisStore`](crate::store::RedisStore).
#[derive(Clone)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct RedisOptions {
    pub(super) finished_max: usize,
    pub(super) records_max: usize,
    pub(super) retry_for: Duration,
    pub(super) clock: Option<Arc<dyn Clock>>,
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("finished_max", &self.finished_max)
            .field("records_max", &self.records_max)
            .field("retry_for", &self.retry_for)
            .finish_non_exhaustive()
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl RedisOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            finished_max: 10_000,
            records_max: 25_000,
            retry_for: Duration::from_secs(2),
            clock: None,
        }
    }

    /// How many ended events each bucket remembers, so that a late repeat of a push or a settle is
    /// known; some 130 bytes each. An id that is older than what was forgotten is refused as too
    /// old. Default: 10,000.
    pub fn finished_max(mut self, many: usize) -> Self {
        self.finished_max = many;
        self
    }

    /// How many records wait in the outbox of each bucket, at least 1,000, where no
    /// [`OutboxLimit`](crate::store::OutboxLimit) says otherwise; some 90 bytes each, and their
    /// payload where it is kept. Default: 25,000.
    pub fn records_max(mut self, many: usize) -> Self {
        self.records_max = many.max(crate::core::op::BATCH_MAX);
        self
    }

    /// For how long a push is tried again when the servers do not answer; as it carries its ids,
    /// that is safe. Default: 2 s.
    pub fn retry_for(mut self, span: Duration) -> Self {
        self.retry_for = span;
        self
    }

    /// Tells the store's time by `clock` instead of the servers': for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }
}
