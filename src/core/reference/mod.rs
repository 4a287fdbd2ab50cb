//! The reference store: what the contract means, in plain maps.

mod restore;

use std::marker::PhantomData;

pub use self::restore::{Finished, Restored};
use crate::core::op::{Answer, Ledger, Stats, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketKey, EventId};
use crate::time::Timestamp;

/// How many finished ids a bucket remembers unless told otherwise.
pub const FINISHED_MAX: usize = 100_000;

/// One bucket of the reference store.
#[derive(Clone, Debug)]
pub struct Bucket<B> {
    key: BucketKey,
    finished_max: usize,
    body: PhantomData<B>,
}

/// What a bucket's next work is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Whether it has ready events.
    pub ready: bool,
    /// When its next scheduled event is due.
    pub next_due: Option<Timestamp>,
}

impl Head {
    /// Whether there is work sooner than there was at `other`.
    #[must_use]
    pub fn is_earlier_than(self, other: Self) -> bool {
        let sooner = match (self.next_due, other.next_due) {
            (Some(this), Some(that)) => this < that,
            (this, _) => this.is_some(),
        };
        (self.ready && !other.ready) || sooner
    }
}

impl<B: Clone> Bucket<B> {
    /// An empty bucket that remembers [`FINISHED_MAX`] finished ids.
    #[must_use]
    pub fn new(key: BucketKey) -> Self {
        Self {
            key,
            finished_max: FINISHED_MAX,
            body: PhantomData,
        }
    }

    /// The same bucket with another bound on the finished ids that it remembers.
    #[must_use]
    pub fn with_memory(mut self, finished_max: usize) -> Self {
        self.finished_max = finished_max;
        self
    }

    /// Which bucket this is.
    #[must_use]
    pub fn key(&self) -> &BucketKey {
        &self.key
    }

    /// Applies one operation at `now_us`.
    ///
    /// # Errors
    ///
    /// Nothing was changed.
    pub fn apply<L: Ledger<Body = B>>(
        &mut self,
        _now_us: u64,
        _op: StoreOp,
        _ledger: &mut L,
    ) -> Result<Answer<B>> {
        Err(Error::invalid("not yet"))
    }

    /// The bucket's next work.
    #[must_use]
    pub fn head(&self) -> Head {
        Head::default()
    }

    /// Lets held events take effect; others are passed over.
    pub fn confirm(&mut self, _ids: &[EventId]) {}

    /// Removes held events without a trace; others are passed over.
    pub fn forget(&mut self, _ids: &[EventId]) {}

    /// Takes up an event from before the start; in the order in which they were accepted.
    pub fn restore(&mut self, _restored: Restored<B>) {}

    /// Takes up the memory of a finished event from before the start; the oldest first.
    pub fn restore_finished(&mut self, _finished: Finished) {}

    /// Says that finished ids created until `created` may have been forgotten before the start.
    pub fn forgotten_before(&mut self, _created: Timestamp) {}

    /// How many events stand where.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Whether it holds no event that is not over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        true
    }

    /// Checks everything that must be so at any time.
    ///
    /// # Errors
    ///
    /// What is not so.
    pub fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
