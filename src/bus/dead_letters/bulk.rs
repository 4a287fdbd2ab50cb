//! Bulk operations: revive or drop many dead letters, at a pace.

use std::sync::Arc;

use crate::bus::dead_letters::dead_letter::DeadLetter;
use crate::bus::dead_letters::source::{DeadLetterPage, DeadLetterScan};
use crate::bus::dead_letters::{DeadLetterCursor, DeadLetters};
use crate::bus::pace::BulkPacer;
use crate::bus::program_audit::ActionLine;
use crate::core::op::{BATCH_MAX, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketKey, EventId};

/// How many dead letters a dry run returns.
const FIRST: usize = 10;

/// The result of a bulk operation on dead letters.
#[derive(Debug, Default)]
#[must_use = "it may have been stopped by an error"]
#[non_exhaustive]
pub struct BulkResult {
    /// How many dead letters matched.
    pub matched: u64,
    /// How many of them were changed; 0 in a dry run.
    pub done: u64,
    /// How many were skipped: ids that are not dead or do not match, dead letters that were revived
    /// or dropped concurrently, and, of a revive, those whose expiry has passed.
    pub passed_over: u64,
    /// The first ten matches of a dry run.
    pub first: Vec<DeadLetter>,
    /// Where to continue with [`DeadLetters::after`]: after an error, or where
    /// [`limit`](DeadLetters::limit) ended it.
    pub next: Option<DeadLetterCursor>,
    /// The error that stopped it; what was done until then is counted. If it is
    /// [`Unknown`](crate::ErrorKind::Unknown), up to one more batch may have been changed. If
    /// [`next`](Self::next) is `None`, all buckets that responded are done; repeat the call for the
    /// others when the store has recovered.
    pub stopped: Option<Error>,
}

impl BulkResult {
    /// Returns this result, or the error that stopped it.
    ///
    /// # Errors
    ///
    /// The error that stopped it; what had been done until then stays done.
    pub fn finished(self) -> Result<Self> {
        match self.stopped {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum BulkAction {
    Revive,
    Drop,
}

impl DeadLetters {
    /// Makes these dead letters ready again, with all their attempts, if they match the other
    /// filters; the rest are counted as skipped, as is one whose expiry has passed, which stays dead.
    /// At most 10,000 ids.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid option. An error of the
    /// store is in [`BulkResult::stopped`].
    pub async fn revive(self, ids: impl IntoIterator<Item = EventId>) -> Result<BulkResult> {
        self.named(ids, BulkAction::Revive).await
    }

    /// Makes every matching dead letter ready again, with all its attempts. Dead letters from a
    /// second or more after the start are left alone, so that it terminates; one whose expiry has
    /// passed stays dead.
    ///
    /// Try it with [`dry_run`](Self::dry_run), and then with a [`limit`](Self::limit) and a
    /// [`rate`](Self::rate). It runs while the future is polled; if it was dropped or stopped, call
    /// it again to do the rest.
    ///
    /// # Errors
    ///
    /// As [`revive`](Self::revive).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let letters = bus.dead_letters().queue("order-close").error("connection refused");
    /// let would = letters.clone().dry_run().revive_all().await?;
    /// println!("{} would be revived, the first ones: {:?}", would.matched, would.first);
    ///
    /// let revived = letters.rate(50.0).by("ann").revive_all().await?.finished()?;
    /// println!("{} are revived", revived.done);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn revive_all(self) -> Result<BulkResult> {
        self.sweep(BulkAction::Revive).await
    }

    /// Removes these dead letters for good, if they match the other filters; the rest are counted
    /// as skipped. At most 10,000 ids.
    ///
    /// # Errors
    ///
    /// As [`revive`](Self::revive).
    pub async fn drop(self, ids: impl IntoIterator<Item = EventId>) -> Result<BulkResult> {
        self.named(ids, BulkAction::Drop).await
    }

    /// Removes every matching dead letter for good, except those from a second or more after the
    /// start. This cannot be undone: try it with [`dry_run`](Self::dry_run) first.
    ///
    /// # Errors
    ///
    /// As [`revive`](Self::revive).
    pub async fn drop_all(self) -> Result<BulkResult> {
        self.sweep(BulkAction::Drop).await
    }

    async fn named(
        self,
        ids: impl IntoIterator<Item = EventId>,
        act: BulkAction,
    ) -> Result<BulkResult> {
        let dry_run = self.dry_run;
        let selected = self.ids(ids);
        let named = selected
            .filter
            .ids
            .as_ref()
            .map_or(0, |ids| ids.len() as u64);
        let mut bulk = selected.run(act).await?;
        if bulk.next.is_none() {
            // An id may be dead in several queues.
            let found = if dry_run { bulk.matched } else { bulk.done };
            bulk.passed_over = named.saturating_sub(found);
        }
        Ok(bulk)
    }

    async fn sweep(mut self, act: BulkAction) -> Result<BulkResult> {
        self.filter.began = Some(self.inner.now());
        self.run(act).await
    }

    async fn run(self, act: BulkAction) -> Result<BulkResult> {
        self.check()?;
        let mut bulk = BulkResult::default();
        if let Err(error) = self.go(act, &mut bulk).await {
            bulk.stopped = Some(error);
        }
        Ok(bulk)
    }

    /// Processes all matches; `bulk` is accurate at any time.
    async fn go(&self, act: BulkAction, bulk: &mut BulkResult) -> Result<()> {
        bulk.next.clone_from(&self.after);
        let mut left = self.limit.unwrap_or(usize::MAX);
        let mut pace = BulkPacer::new(self.rate);
        let action = match act {
            BulkAction::Revive => "dead letters revived",
            BulkAction::Drop => "dead letters dropped",
        };
        let line = self.line(
            action,
            { self.filter.queues.iter() }.map(|queue| queue.as_str()),
        );
        let mut scan = DeadLetterScan::new(self).await?;
        while let Some(page) = scan.next(BATCH_MAX).await? {
            let (bucket, end) = (page.bucket.clone(), page.end.clone());
            let letters = self.matching(page, left, bulk).await?;
            left -= letters.len();
            for letters in letters.chunks(pace.stride()) {
                if !self.dry_run {
                    pace.wait().await;
                    pace.count(letters.len() as u64);
                    let done = self.act(act, &bucket, letters.to_vec(), &line).await?;
                    bulk.done += done;
                    bulk.passed_over += letters.len() as u64 - done;
                }
                bulk.matched += letters.len() as u64;
                let last = letters.last();
                bulk.next = last.map(|id| DeadLetterCursor::new(&bucket, *id));
            }
            if left == 0 {
                return Ok(());
            }
            bulk.next = Some(end);
        }
        bulk.next = None;
        scan.left_out.take().map_or(Ok(()), Err)
    }

    /// Returns the ids of the matches of a page, at most `limit`; a dry run keeps the first ten
    /// letters.
    async fn matching(
        &self,
        page: DeadLetterPage,
        limit: usize,
        bulk: &mut BulkResult,
    ) -> Result<Vec<EventId>> {
        let shows = self.dry_run && bulk.first.len() < FIRST;
        if self.filter.reads_records() || shows {
            let letters = self.with_last_records(page, limit).await?;
            let ids = letters.iter().map(|letter| letter.id).collect();
            if shows {
                let more = FIRST - bulk.first.len();
                bulk.first.extend(letters.into_iter().take(more));
            }
            return Ok(ids);
        }
        let letters = page.letters.iter().map(|letter| letter.id);
        Ok(letters.take(limit).collect())
    }

    /// Changes dead letters of a bucket; returns how many.
    async fn act(
        &self,
        act: BulkAction,
        bucket: &BucketKey,
        ids: Vec<EventId>,
        line: &Arc<ActionLine>,
    ) -> Result<u64> {
        let by = self.by.clone();
        let operation = match act {
            BulkAction::Revive => StoreOp::revive(ids, by),
            BulkAction::Drop => StoreOp::drop_dead(ids, by),
        };
        let (inner, bucket) = (Arc::clone(&self.inner), bucket.clone());
        let change = async move { inner.apply(&bucket, operation).await };
        Ok(line.step(change, |done| *done > 0).await? as u64)
    }
}
