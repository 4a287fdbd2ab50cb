//! What is done to many dead letters: revived or dropped, at a pace.

use crate::bus::dead_letters::letter::DeadLetter;
use crate::bus::dead_letters::source::{LetterPage, LetterScan};
use crate::bus::dead_letters::{DeadLetters, LetterCursor};
use crate::bus::pace::Pace;
use crate::core::op::{BATCH_MAX, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketKey, EventId};

/// How many letters a dry run shows.
const FIRST: usize = 10;

/// What was done to dead letters.
#[derive(Debug, Default)]
#[must_use = "it may have been stopped by an error"]
#[non_exhaustive]
pub struct Sweep {
    /// How many letters were asked for and found dead.
    pub matched: u64,
    /// To how many of them it was done; none in a dry run.
    pub done: u64,
    /// How many were passed over: those named by id that are not dead or do not match, and those
    /// that somebody else revived or dropped meanwhile.
    pub passed_over: u64,
    /// In a dry run the first ten that it would be done to.
    pub first: Vec<DeadLetter>,
    /// Where to go on with [`DeadLetters::after`]: after an error, or where
    /// [`limit`](DeadLetters::limit) ended it.
    pub next: Option<LetterCursor>,
    /// What ended it before its end; what was done until then is counted. Where that is
    /// [`Unknown`](crate::ErrorKind::Unknown), up to a batch more may have been done. Where
    /// [`next`](Self::next) is empty beside it, it was done to all that answered, and what did not
    /// answer is left for a call when the store is whole again.
    pub stopped: Option<Error>,
}

impl Sweep {
    /// The same, or the error that stopped it.
    ///
    /// # Errors
    ///
    /// What stopped it; what had been done until then stays done.
    pub fn finished(self) -> Result<Self> {
        match self.stopped {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Revive,
    Drop,
}

impl DeadLetters {
    /// Makes these letters ready again, with all their attempts, if they are dead and match
    /// whatever else was asked for; the others are counted as passed over. At most 10,000 ids.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for something that was asked for and is
    /// not possible. An error of the store is in [`Sweep::stopped`].
    pub async fn revive(self, ids: impl IntoIterator<Item = EventId>) -> Result<Sweep> {
        self.named(ids, Act::Revive).await
    }

    /// Makes every letter that matches ready again, with all its attempts. What dies a second or
    /// more after this began is left alone, so that it comes to an end.
    ///
    /// Try it with [`dry_run`](Self::dry_run), and then with a [`limit`](Self::limit) and a
    /// [`rate`](Self::rate). It goes on for as long as the future is polled; where it was dropped
    /// or stopped, calling it again does the rest.
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
    pub async fn revive_all(self) -> Result<Sweep> {
        self.sweep(Act::Revive).await
    }

    /// Removes these letters for good, if they are dead and match whatever else was asked for; the
    /// others are counted as passed over. At most 10,000 ids.
    ///
    /// # Errors
    ///
    /// As [`revive`](Self::revive).
    pub async fn drop(self, ids: impl IntoIterator<Item = EventId>) -> Result<Sweep> {
        self.named(ids, Act::Drop).await
    }

    /// Removes every letter that matches for good, but for what dies a second or more after this
    /// began. Nothing brings it back: try it with [`dry_run`](Self::dry_run) first.
    ///
    /// # Errors
    ///
    /// As [`revive`](Self::revive).
    pub async fn drop_all(self) -> Result<Sweep> {
        self.sweep(Act::Drop).await
    }

    async fn named(self, ids: impl IntoIterator<Item = EventId>, act: Act) -> Result<Sweep> {
        let dry_run = self.dry_run;
        let asked = self.ids(ids);
        let named = asked.filter.ids.as_ref().map_or(0, |ids| ids.len() as u64);
        let mut sweep = asked.sweep(act).await?;
        if sweep.next.is_none() {
            sweep.passed_over = named - if dry_run { sweep.matched } else { sweep.done };
        }
        Ok(sweep)
    }

    async fn sweep(mut self, act: Act) -> Result<Sweep> {
        self.check()?;
        self.filter.began = Some(self.inner.now());
        let mut sweep = Sweep::default();
        if let Err(error) = self.go(act, &mut sweep).await {
            sweep.stopped = Some(error);
        }
        Ok(sweep)
    }

    /// Goes through all that is asked for; what `sweep` says is true at any time.
    async fn go(&self, act: Act, sweep: &mut Sweep) -> Result<()> {
        sweep.next.clone_from(&self.after);
        let mut left = self.limit.unwrap_or(usize::MAX);
        let mut pace = Pace::new(self.rate);
        let mut scan = LetterScan::new(self).await?;
        while let Some(page) = scan.next(BATCH_MAX).await? {
            let (bucket, end) = (page.bucket.clone(), page.end.clone());
            let letters = self.matching(page, left, sweep).await?;
            left -= letters.len();
            for letters in letters.chunks(pace.stride()) {
                if !self.dry_run {
                    pace.wait().await;
                    pace.took(letters.len());
                    let done = self.act(act, &bucket, letters.to_vec()).await?;
                    sweep.done += done;
                    sweep.passed_over += letters.len() as u64 - done;
                }
                sweep.matched += letters.len() as u64;
                sweep.next = letters.last().map(|id| LetterCursor {
                    queue: bucket.queue.clone(),
                    id: *id,
                });
            }
            if left == 0 {
                return Ok(());
            }
            sweep.next = Some(end);
        }
        sweep.next = None;
        scan.left_out.take().map_or(Ok(()), Err)
    }

    /// The ids of the letters of a page that match, at most `limit`; a dry run shows the first ten.
    async fn matching(
        &self,
        page: LetterPage,
        limit: usize,
        sweep: &mut Sweep,
    ) -> Result<Vec<EventId>> {
        let shows = self.dry_run && sweep.first.len() < FIRST;
        if self.filter.reads_records() || shows {
            let letters = self.told(page, limit).await?;
            let ids = letters.iter().map(|letter| letter.id).collect();
            if shows {
                let more = FIRST - sweep.first.len();
                sweep.first.extend(letters.into_iter().take(more));
            }
            return Ok(ids);
        }
        let letters = page.letters.iter().map(|letter| letter.id);
        Ok(letters.take(limit).collect())
    }

    /// Does it to some letters of a bucket; answers to how many.
    async fn act(&self, act: Act, bucket: &BucketKey, ids: Vec<EventId>) -> Result<u64> {
        let by = self.by.clone();
        let operation = match act {
            Act::Revive => StoreOp::revive(ids, by),
            Act::Drop => StoreOp::drop_dead(ids, by),
        };
        Ok(self.inner.apply(bucket, operation).await? as u64)
    }
}
