//! A running job: its future, its limit and its end.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Sleep, sleep};

use super::Shared;
use super::deadlines::{COARSE_MIN, Deadline, DeadlineSlot};
use super::polled;
use super::work::{JobEnd, Work};
use crate::panics;

/// What a worker lends to the job that it runs.
pub(super) struct JobContext<'a, W: Work> {
    pub(super) pool: &'a Arc<Shared<W>>,
    /// The jobs behind this one, which are given back when it suspends.
    pub(super) local: &'a mut VecDeque<W::Job>,
    /// The worker's slot in the deadline table, once it has needed one.
    pub(super) reserved: &'a mut Option<DeadlineSlot>,
    /// How often the pool had been cut short before the job was begun.
    pub(super) cuts: usize,
}

/// A running job. Its end is reported exactly once, at the latest on drop.
pub(super) struct RunningJob<'a, W: Work, F> {
    lent: JobContext<'a, W>,
    /// Present until the end was reported.
    ticket: Option<W::Ticket>,
    future: Pin<&'a mut Option<F>>,
    timer: Pin<&'a mut Option<Sleep>>,
    limit: JobLimit,
}

/// What enforces a job's limit. Unset until it suspends for the first time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JobLimit {
    /// It has never been suspended.
    Unset,
    /// It has no limit.
    None,
    /// The deadline table.
    Coarse(Deadline),
    /// Its own timer.
    Fine,
}

// No structural pinning: the future and the timer are pinned where they are.
impl<W: Work, F> Unpin for RunningJob<'_, W, F> {}

impl<W: Work, F> Future for RunningJob<'_, W, F>
where
    F: Future<Output = W::Output>,
{
    type Output = JobEnd<W::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let future = this.future.as_mut().as_pin_mut();
        let (Some(future), Some(ticket)) = (future, &this.ticket) else {
            return Poll::Ready(JobEnd::Cut); // polled after its end, which no worker does
        };
        let work = &this.lent.pool.work;
        let _under_way = polled::Poll::of(this.lent.pool.number);
        match catch_unwind(AssertUnwindSafe(|| work.within(ticket, || future.poll(cx)))) {
            Ok(Poll::Ready(output)) => Poll::Ready(JobEnd::Finished(output)),
            Ok(Poll::Pending) => this.watch(cx),
            Err(panic) => Poll::Ready(JobEnd::Panicked(panics::message(panic))),
        }
    }
}

impl<'a, W: Work, F> RunningJob<'a, W, F> {
    /// Takes over a job's pinned future, and the place for a timer.
    #[inline]
    pub(super) fn new(
        lent: JobContext<'a, W>,
        ticket: W::Ticket,
        future: Pin<&'a mut Option<F>>,
        timer: Pin<&'a mut Option<Sleep>>,
    ) -> Self {
        Self {
            lent,
            ticket: Some(ticket),
            future,
            timer,
            limit: JobLimit::Unset,
        }
    }

    /// Returns whether the job was ever suspended.
    #[inline]
    pub(super) fn was_suspended(&self) -> bool {
        self.limit != JobLimit::Unset
    }

    /// Registers the suspended job to be woken when its limit has passed or the pool is cut short,
    /// and ends it if that is so already.
    fn watch(&mut self, cx: &mut Context<'_>) -> Poll<JobEnd<W::Output>> {
        if self.limit == JobLimit::Unset {
            self.suspend();
        }
        // First the waker, then the checks: a change that is followed by a wake-up is not missed.
        if let Some(reserved) = &self.lent.reserved {
            reserved.watch(cx.waker());
        }
        if self.lent.pool.cuts() != self.lent.cuts {
            return Poll::Ready(JobEnd::Cut);
        }
        let timed_out = match (self.limit, &self.lent.reserved) {
            (JobLimit::Coarse(deadline), Some(reserved)) => reserved.has_passed(deadline),
            (JobLimit::Fine, _) => match self.timer.as_mut().as_pin_mut() {
                Some(timer) => timer.poll(cx).is_ready(),
                None => false,
            },
            _ => false,
        };
        if timed_out {
            Poll::Ready(JobEnd::TimedOut)
        } else {
            Poll::Pending
        }
    }

    /// Handles the first suspension: gives the jobs behind it back, and starts its limit.
    fn suspend(&mut self) {
        let JobContext {
            pool,
            local,
            reserved,
            ..
        } = &mut self.lent;
        if !local.is_empty() {
            pool.give_back(local);
            pool.call();
        }
        let reserved = reserved.get_or_insert_with(|| pool.deadlines.reserve());
        self.limit = match pool.work.limit() {
            None => JobLimit::None,
            Some(limit) if limit >= COARSE_MIN => JobLimit::Coarse(reserved.arm(limit)),
            Some(limit) => {
                self.timer.set(Some(sleep(limit)));
                JobLimit::Fine
            }
        };
    }

    /// Drops the future and reports how the job ended, once.
    #[inline]
    pub(super) fn end(&mut self, ended: JobEnd<W::Output>) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        if let (JobLimit::Coarse(_), Some(reserved)) = (self.limit, &self.lent.reserved) {
            reserved.disarm();
        }
        // A panic on drop does not change how the job ended: the work was done or was not.
        let drop = || self.future.set(None);
        let work = &self.lent.pool.work;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work.within(&ticket, drop))) {
            panics::log("dropping a job's future panicked", panic);
            // It may have been its surroundings that panicked, before the drop.
            panics::reported(|| self.future.set(None));
        }
        if let Err(panic) =
            catch_unwind(AssertUnwindSafe(|| self.lent.pool.work.end(ticket, ended)))
        {
            panics::log("ending a job panicked", panic);
        }
    }
}

impl<W: Work, F> Drop for RunningJob<'_, W, F> {
    fn drop(&mut self) {
        self.end(JobEnd::Cut);
    }
}
