//! The publishers of a pool: each puts jobs into its ring, or waits until the ring has room.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use super::Shared;
use super::ring::RingProducer;
use super::work::Work;

/// Publishes jobs to a pool. Cloning costs a lock: keep one clone for each task that publishes.
pub struct Publisher<W: Work> {
    producer: RingProducer<W::Job>,
    shared: Arc<Shared<W>>,
}

/// The pool is closed; contains the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolClosed<J>(pub J);

impl<W: Work> Publisher<W> {
    pub(super) fn new(producer: RingProducer<W::Job>, shared: Arc<Shared<W>>) -> Self {
        Self { producer, shared }
    }

    /// Publishes `job` if there is room and the pool is open.
    ///
    /// # Errors
    ///
    /// Returns the job when the ring is full or the pool [`is_closed`](Self::is_closed).
    #[inline]
    pub fn try_publish(&mut self, job: W::Job) -> Result<(), W::Job> {
        if self.is_closed() {
            return Err(job);
        }
        self.producer.try_publish(job)?;
        self.shared.call();
        Ok(())
    }

    /// Publishes `job`, waiting for room. Cancelling this drops the job.
    ///
    /// # Errors
    ///
    /// Returns [`PoolClosed`] with the job if the pool is closed.
    pub async fn publish(&mut self, job: W::Job) -> Result<(), PoolClosed<W::Job>> {
        let Err(job) = self.try_publish(job) else {
            return Ok(());
        };
        let shared = self.shared.clone();
        let mut job = Some(job);
        let full = || match self.try_publish(job.take()?) {
            Ok(()) => Some(Ok(())),
            Err(back) if self.is_closed() => Some(Err(PoolClosed(back))),
            Err(back) => {
                job = Some(back);
                None
            }
        };
        shared.feed.room().wait_until(full).await
    }

    /// Publishes as many of `jobs` as there is room for, from the front and in order, with one
    /// claim and one wake-up; returns their number. The rest stays in `jobs`: there was no room, or
    /// the pool [`is_closed`](Self::is_closed).
    #[inline]
    pub(crate) fn try_publish_many(&mut self, jobs: &mut VecDeque<W::Job>) -> usize {
        self.try_publish_many_as(jobs, |job| job)
    }

    /// Like [`try_publish_many`](Self::try_publish_many), for values that `wrap` turns into jobs.
    /// `wrap` must only move: a panic in it would wedge the ring.
    #[inline]
    pub(crate) fn try_publish_many_as<U>(
        &mut self,
        jobs: &mut VecDeque<U>,
        wrap: impl Fn(U) -> W::Job,
    ) -> usize {
        if jobs.is_empty() || self.is_closed() {
            return 0;
        }
        let published = self.producer.try_publish_many(jobs, wrap);
        if published > 0 {
            self.shared.call();
        }
        published
    }

    /// Publishes all of `jobs` in order, waiting for room. Cancelling this leaves the unpublished
    /// ones in `jobs`.
    ///
    /// # Errors
    ///
    /// Returns [`PoolClosed`] if the pool is closed; the unpublished ones stay in `jobs`.
    pub async fn publish_many(
        &mut self,
        jobs: &mut VecDeque<W::Job>,
    ) -> Result<(), PoolClosed<()>> {
        self.publish_many_as(jobs, |job| job).await
    }

    /// Like [`publish_many`](Self::publish_many), for values that `wrap` turns into jobs, as
    /// [`try_publish_many_as`](Self::try_publish_many_as) does.
    pub(crate) async fn publish_many_as<U>(
        &mut self,
        jobs: &mut VecDeque<U>,
        wrap: impl Fn(U) -> W::Job,
    ) -> Result<(), PoolClosed<()>> {
        self.try_publish_many_as(jobs, &wrap);
        if jobs.is_empty() {
            return Ok(());
        }
        let shared = self.shared.clone();
        let rest = || {
            self.try_publish_many_as(jobs, &wrap);
            if jobs.is_empty() {
                Some(Ok(()))
            } else if self.is_closed() {
                Some(Err(PoolClosed(())))
            } else {
                None
            }
        };
        shared.feed.room().wait_until(rest).await
    }

    /// Returns how often waiting jobs were withdrawn so far.
    pub(crate) fn withdrawals(&self) -> usize {
        self.shared.withdrawals.load(SeqCst)
    }

    /// Publishes all of `jobs` in order, waiting for room for as long as none are withdrawn beyond so
    /// many times, and the pool is neither paused nor closed. The unpublished ones stay in `jobs`.
    pub(crate) async fn publish_until_withdrawn(
        &mut self,
        jobs: &mut VecDeque<W::Job>,
        withdrawals: usize,
    ) {
        let shared = self.shared.clone();
        let rest = || {
            let leave = shared.has_withdrawn_since(withdrawals) || self.is_closed();
            if !leave {
                self.try_publish_many(jobs);
            }
            (leave || jobs.is_empty()).then_some(())
        };
        shared.feed.room().wait_until(rest).await;
    }

    /// Withdraws what was published into a pool that was paused meanwhile.
    pub(crate) fn withdraw_if_paused(&self) {
        self.shared.withdraw_if_paused();
    }

    /// Returns whether the pool rejects further jobs.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }
}

impl<W: Work> Clone for Publisher<W> {
    fn clone(&self) -> Self {
        Self {
            producer: self.producer.clone(),
            shared: self.shared.clone(),
        }
    }
}
