//! Settling and extending leases, by their token or by the id of their event.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::queue::Queue;
use crate::bus::state::leases::token::LeaseToken;
use crate::core::op::{AttemptOutcome, CancelOutcome, FailureReason, Settlement, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{EventId, State};
use crate::flow::Flow;
use crate::record::{Cause, cut_error};
use crate::time::{DELAY_MAX, Timestamp, When};

/// How an attempt of a leased event ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseOutcome {
    /// The event is done.
    Ack,
    /// It failed: the event is due again, or a dead letter after its last attempt.
    Retry {
        /// The delay; `None`: by the queue's policy.
        after: Option<Duration>,
        /// Why it failed, for the record.
        reason: Option<String>,
    },
    /// The event is due again after this delay; the attempt does not count.
    Snooze(Duration),
    /// Nothing was done: the event is ready again at once, at its place, and the attempt does not
    /// count.
    Release,
    /// The event becomes a dead letter, for this reason.
    Bury(Option<String>),
    /// The event is dropped as no longer useful, for this reason.
    Discard(Option<String>),
}

/// Whether a lease stood when it was settled or extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the lease may be lost, and only this says so"]
pub enum LeaseStatus {
    /// It stood: what was requested has happened. Also after its deadline, as long as nobody has
    /// taken it back; and when the same settlement is repeated.
    Held,
    /// It was lost, or the event was settled otherwise: nothing was changed.
    Lost,
}

/// The result of [`Queue::end`](crate::Queue::end).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the event may be over or unknown, and only this says so"]
pub enum EndResult {
    /// It was leased: its attempt is acked in the name of its holder, whose own settlement is
    /// refused.
    Acked,
    /// It waited and is cancelled. A holder that has lost its lease before may still work on it.
    Cancelled,
    /// Too late: the event has reached this state.
    TooLate(State),
    /// No known event has this id.
    NotFound,
}

/// How often an event that changes hands is looked at again.
const TRIES_MAX: usize = 16;

impl LeaseStatus {
    fn of(held: bool) -> Self {
        if held { Self::Held } else { Self::Lost }
    }
}

impl Inner {
    /// Settles a lease.
    pub(super) async fn settle(
        self: &Arc<Self>,
        token: &LeaseToken,
        outcome: LeaseOutcome,
    ) -> Result<LeaseStatus> {
        self.leases.held.take(token.id);
        let failure = |reason: Option<String>| FailureReason {
            cause: Cause::Failed,
            error: reason.map(cut_error),
        };
        let verdict = match outcome {
            LeaseOutcome::Ack => AttemptOutcome::Ack,
            LeaseOutcome::Retry { after, reason } => {
                let policy = &self.options(&token.queue).backoff;
                let by_policy = || policy.delay_after(token.attempt, fastrand::f64());
                AttemptOutcome::Retry(after.unwrap_or_else(by_policy), failure(reason))
            }
            LeaseOutcome::Snooze(delay) => AttemptOutcome::Snooze(delay),
            LeaseOutcome::Release => AttemptOutcome::Release,
            LeaseOutcome::Bury(reason) => AttemptOutcome::Bury(failure(reason)),
            LeaseOutcome::Discard(reason) => AttemptOutcome::Discard(reason.map(cut_error)),
        };
        self.settle_as(token, verdict, token.fetched_us).await
    }

    /// Settles a lease; its attempt started at `started_us`, or not if that is 0.
    pub(super) async fn settle_as(
        self: &Arc<Self>,
        token: &LeaseToken,
        verdict: AttemptOutcome,
        started_us: u64,
    ) -> Result<LeaseStatus> {
        let settlement = Settlement {
            id: token.id,
            request: token.request,
            verdict,
            started_us,
            fetched_us: token.fetched_us,
        };
        let group = (token.bucket(), token.node);
        Ok(LeaseStatus::of(self.settle_one(group, settlement).await?))
    }

    /// Extends a lease; returns the new deadline, if it stood.
    pub(super) async fn extend(
        &self,
        token: &LeaseToken,
        ttr: Duration,
    ) -> Result<(LeaseStatus, Timestamp)> {
        check_ttr(ttr)?;
        let leases = vec![(token.id, token.request)];
        let extend = StoreOp::extend(token.node, leases, ttr);
        let (store, bucket) = (self.open()?, token.bucket());
        let (held, now_us) = extend.apply_timed(&**store, &bucket).await?;
        let (status, deadline) = (
            LeaseStatus::of(held == [true]),
            When::After(ttr).due(now_us),
        );
        if status == LeaseStatus::Held
            && let Some(pulls) = self.flow().as_ref().map(Flow::pulls)
        {
            pulls.extended(bucket, deadline);
        }
        Ok((status, deadline))
    }
}

/// Rejects a lease that lasts too long.
pub(super) fn check_ttr(ttr: Duration) -> Result<()> {
    if ttr > DELAY_MAX {
        return Err(Error::invalid(format!(
            "the ttr is {ttr:?}; it must be at most {DELAY_MAX:?}"
        )));
    }
    Ok(())
}

impl Bus {
    /// Settles a leased event by its token, whichever process has leased it.
    ///
    /// A late call succeeds until the lease was taken back, which happens within a tenth of a
    /// second after its deadline. Repeating a call changes nothing.
    ///
    /// # Errors
    ///
    /// The store's error; on [`ErrorKind::Unknown`] calling again is safe.
    ///
    /// # Examples
    ///
    /// As of [`LeaseToken`].
    pub async fn settle_lease(
        &self,
        token: &LeaseToken,
        outcome: LeaseOutcome,
    ) -> Result<LeaseStatus> {
        self.inner.settle(token, outcome).await
    }

    /// Extends a lease by its token: it ends `ttr` from now, later or earlier than before.
    ///
    /// # Errors
    ///
    /// The store's error; [`ErrorKind::Invalid`] for a `ttr` of more than
    /// [`DELAY_MAX`].
    ///
    /// # Examples
    ///
    /// As of [`Leased::extend`](crate::lease::Leased::extend).
    pub async fn extend_lease(&self, token: &LeaseToken, ttr: Duration) -> Result<LeaseStatus> {
        Ok(self.inner.extend(token, ttr).await?.0)
    }
}

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Ends an event by its id alone, whoever holds it: one that waits is cancelled, a leased one is
    /// acked under its current lease. For an event that is over nothing changes.
    ///
    /// It is one atomic step with a record. If the event changes hands between the look at it and
    /// that step, both are repeated.
    ///
    /// # Errors
    ///
    /// The store's error; on [`ErrorKind::Unknown`] calling again is safe.
    /// [`ErrorKind::Conflict`] if the event changes hands again and again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// use duly::lease::EndResult;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// let id = queue.push(7, When::Now).await?.id();
    /// queue.lease(1, Duration::from_secs(30)).send().await?;
    /// assert_eq!(queue.end(id).await?, EndResult::Acked);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn end(&self, id: EventId) -> Result<EndResult> {
        self.end_if(id, |_| true).await
    }

    /// Ends an event as [`end`](Self::end) does, but only in a state that `may` accepts: in another one
    /// it stays, also where it has reached that only in between.
    pub(crate) async fn end_if(
        &self,
        id: EventId,
        may: impl Fn(State) -> bool,
    ) -> Result<EndResult> {
        let (may_cancel, may_ack) = (may(State::Ready), may(State::Leased));
        if may_ack
            && let Some(token) = self.handle.inner.leases.held.take(id)
            && token.queue == self.handle.name
            && self.handle.inner.settle(&token, LeaseOutcome::Ack).await? == LeaseStatus::Held
        {
            return Ok(EndResult::Acked);
        }
        for _ in 0..TRIES_MAX {
            if may_cancel {
                match self.cancel(id).await? {
                    CancelOutcome::Cancelled | CancelOutcome::CancelledAfterAttempt => {
                        return Ok(EndResult::Cancelled);
                    }
                    CancelOutcome::NotFound => return Ok(EndResult::NotFound),
                    CancelOutcome::TooLate(State::Leased) if may_ack => {}
                    CancelOutcome::TooLate(state) => return Ok(EndResult::TooLate(state)),
                }
            }
            let (bucket, found) = self.find(id).await?;
            let Some(found) = found else {
                if may_cancel {
                    continue; // it has ended meanwhile
                }
                return Ok(EndResult::NotFound);
            };
            if !may_cancel && (!may_ack || found.state != State::Leased) {
                return Ok(EndResult::TooLate(found.state));
            }
            let (Some(node), Some(request)) = (found.holder, found.request) else {
                continue; // it has changed hands meanwhile
            };
            let token = LeaseToken {
                id,
                queue: bucket.queue,
                bucket: bucket.bucket,
                node,
                request,
                attempt: found.tries.saturating_add(1),
                fetched_us: found.since.map_or(0, Timestamp::as_micros),
            };
            if self.handle.inner.settle(&token, LeaseOutcome::Ack).await? == LeaseStatus::Held {
                return Ok(EndResult::Acked);
            }
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!("event {id} changes hands too often to be ended; call again"),
        ))
    }
}
