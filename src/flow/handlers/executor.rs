//! The executor: runs one attempt, from the ring to its outcome.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::Either;
use tokio::time::Instant;

use crate::core::op::{AttemptOutcome, Delivery, FailureReason};
use crate::core::step::Job;
use crate::event::{CALL_HEADER, Envelope, Event};
use crate::flow::handlers::attempt::{Attempt, HandlerExit, StartCheck};
use crate::flow::handlers::decode::{DecodeError, PayloadDecoder};
use crate::flow::handlers::deps::{ExecutorDeps, stale};
use crate::flow::handlers::outside::HoldsTime;
use crate::flow::handlers::replies::CallResult;
use crate::flow::handlers::ticket::{SettlePhase, Ticket};
use crate::flow::options::QueueOptions;
use crate::flow::pool::deadlines::TICK;
use crate::flow::pool::work::{JobEnd, Work};
use crate::handler::{Context, FailureKind};
use crate::panics::{self, Contained};
use crate::record::{Cause, cut_error};
use crate::trace;
use serde::de::DeserializeOwned;

/// How far a handler that returns by itself may exceed its timeout: the deadline table might not
/// have ended it earlier.
const SLACK: Duration = TICK.saturating_mul(3);

/// An entry of a ring.
pub(crate) enum Task<T> {
    /// A leased event.
    Stored(Box<Job<Arc<Envelope>>>),
    /// A value that was published straight into the ring.
    Published(Contained<T>),
}

/// Runs the attempts of one queue.
pub(crate) struct Executor<A: Attempt> {
    pub(crate) handler: A,
    pub(crate) deps: ExecutorDeps,
    pub(crate) reading: PayloadDecoder<A::Payload>,
}

impl<A: Attempt> Work for Executor<A>
where
    A::Payload: DeserializeOwned,
{
    type Job = Task<A::Payload>;
    type Ticket = Option<Ticket>;
    type Scratch = Context;
    type Output = HandlerExit;

    fn scratch(&self) -> Context {
        Context::new(Arc::clone(&self.deps.surroundings), None)
    }

    fn begin(
        &self,
        task: Self::Job,
        scratch: &mut Context,
    ) -> Option<(Self::Ticket, impl Future<Output = HandlerExit> + Send)> {
        let (event, ticket) = match task {
            Task::Published(payload) => (Event::published(payload.into_inner()), None),
            Task::Stored(job) => {
                let (event, started_us) = self.check_in_or_hand_back(&job)?;
                let traced = panics::caught(|| trace::handle(&job.delivery, started_us));
                let ticket = Ticket {
                    traced: traced.unwrap_or_default(),
                    job,
                    started_us,
                    since: Instant::now(),
                    phase: (!A::CAN_BE_DROPPED).then(Arc::default),
                };
                (event, Some(ticket))
            }
        };
        let request = ticket.as_ref().map(|ticket| ticket.job.delivery.request);
        let cx = scratch.lend(request);
        let on_a_thread = if A::CAN_BE_DROPPED {
            None
        } else {
            ticket.clone()
        };
        let may_start = on_a_thread.clone().map(|ticket| {
            let deps = self.deps.clone();
            Box::new(move || deps.may_start(&ticket)) as StartCheck
        });
        let timed_out = move || {
            if let Some(ticket) = on_a_thread {
                self.settle(&ticket, JobEnd::TimedOut);
            }
            self.deps.stuck.notify_one();
        };
        let limit = self.deps.options.timeout;
        let future = self.handler.attempt(event, cx, limit, may_start, timed_out);
        let future = match &self.deps.holds {
            None => Either::Left(future),
            Some(holds) => Either::Right(HoldsTime::new(future, Arc::clone(holds))),
        };
        Some((ticket, future))
    }

    fn within<R>(&self, ticket: &Self::Ticket, run: impl FnOnce() -> R) -> R {
        // Its place in memory, where it stays while the attempt runs, tells it from the others.
        let attempt = self.deps.waits.attempt(std::ptr::from_ref(ticket).addr());
        attempt.within(|| match ticket {
            Some(ticket) => ticket.traced.within(run),
            None => run(),
        })
    }

    fn end(&self, ticket: Self::Ticket, ended: JobEnd<HandlerExit>) {
        match ticket {
            Some(ticket) => self.settle(&ticket, ended),
            None => self.log_failure(&ended),
        }
    }

    #[cold]
    fn kept_thread(&self, busy: Duration) {
        let deps = &self.deps;
        if deps.options.dedicated || !A::CAN_BE_DROPPED {
            return; // nobody else waits for its threads
        }
        if let Some(busy) = deps.burning.add(busy, deps.clock.mono()) {
            panics::reported(|| {
                tracing::warn!(
                    queue = %deps.surroundings.queue,
                    ?busy,
                    "handlers keep threads of the runtime busy: other queues wait meanwhile, and \
                     where all threads are, leases are at stake; declare `dedicated = true` for \
                     handlers that compute, `blocking` for handlers that block"
                );
            });
        }
    }

    fn may_leave(&self, task: &Self::Job) -> bool {
        matches!(task, Task::Stored(_))
    }

    fn left(&self, task: Self::Job) {
        if let Task::Stored(job) = task {
            self.deps.hand_back(&job);
        }
    }

    fn limit(&self) -> Option<Duration> {
        A::CAN_BE_DROPPED.then_some(self.deps.options.timeout)
    }
}

impl<A: Attempt> Executor<A>
where
    A::Payload: DeserializeOwned,
{
    /// As [`check_in`](Self::check_in); a delivery on whose way something panics is released after
    /// a pause.
    fn check_in_or_hand_back(&self, job: &Job<Arc<Envelope>>) -> Option<(Event<A::Payload>, u64)> {
        panics::caught(|| self.check_in(job)).unwrap_or_else(|words| {
            let (queue, id) = (&self.deps.surroundings.queue, job.delivery.id);
            let line = || tracing::error!(%queue, %id, words, "checking an event in panicked");
            panics::reported(line);
            self.deps.hand_back_later(job);
            None
        })
    }

    /// Checks whether a delivery may start, and decodes it; settles it otherwise. Returns its event
    /// and when it starts.
    fn check_in(&self, job: &Job<Arc<Envelope>>) -> Option<(Event<A::Payload>, u64)> {
        // A handler on its own thread may start later: its lease is checked, and its start logged,
        // there.
        if A::CAN_BE_DROPPED && !self.deps.is_fresh(job) {
            self.deps.hand_back(job);
            return None;
        }
        let delivery = &job.delivery;
        let envelope = &delivery.body;
        let started_us = self.deps.store.now_us();
        if let Some(stale) = stale(job, started_us) {
            let ended = || CallResult::Failed(stale.words().to_owned());
            self.deps.replies.tell(delivery.id, ended);
            self.deps.tell(job, 0, stale.into());
            return None;
        }
        let payload = match self.reading.read(envelope) {
            Ok(payload) => Contained::new(payload),
            Err(why) => {
                self.settle_unread(job, &why);
                return None;
            }
        };
        if A::CAN_BE_DROPPED && !self.deps.note_start(job, started_us) {
            self.deps.hand_back_later(job);
            return None;
        }
        let (due, attempt) = (delivery.due, delivery.attempt);
        let (payload, body) = (payload.into_inner(), Arc::clone(envelope));
        let event = Event::stored(payload, body, due, attempt, started_us);
        Some((event, started_us))
    }

    /// Settles a payload that does not decode. It will not decode at the next attempt either,
    /// unless a newer build has pushed it and is about to replace this process.
    fn settle_unread(&self, job: &Job<Arc<Envelope>>, why: &DecodeError) {
        let delivery = &job.delivery;
        let (cause, tries_again) = match why {
            DecodeError::Undecodable(_) => (Cause::Undecodable, false),
            DecodeError::Newer(_) => (
                Cause::Undecodable,
                delivery.attempt < delivery.body.attempts,
            ),
            DecodeError::Undecryptable(_) => (Cause::Undecryptable, false),
        };
        // The reason may quote the payload, whatever its length.
        let words = cut_error(why.to_string());
        let failing = FailureReason {
            cause,
            error: Some(words.clone()),
        };
        if tries_again {
            let policy = &self.deps.options.backoff;
            let delay = policy.delay_after(delivery.attempt, fastrand::f64());
            panics::reported(|| trace::unread(delivery, cause, Some(delay)));
            return self
                .deps
                .tell(job, 0, AttemptOutcome::Retry(delay, failing));
        }
        panics::reported(|| trace::unread(delivery, cause, None));
        self.deps
            .replies
            .tell(delivery.id, || CallResult::Failed(words));
        self.deps.tell(job, 0, AttemptOutcome::Bury(failing));
    }

    /// Decides the outcome of an attempt and passes it on, once.
    fn settle(&self, ticket: &Ticket, ended: JobEnd<HandlerExit>) {
        match ticket.tell() {
            SettlePhase::Started => {}
            SettlePhase::NotStarted if matches!(ended, JobEnd::Cut) => {
                return self.deps.hand_back(&ticket.job);
            }
            SettlePhase::NotStarted => return self.deps.hand_back_later(&ticket.job),
            // It was settled at its timeout; only its worker is released now.
            SettlePhase::Already => return self.deps.stuck.notify_one(),
        }
        let ran = ticket.since.elapsed();
        panics::reported(|| self.deps.runs.ended(ran));
        let ended = match ended {
            JobEnd::Finished(HandlerExit::Returned(..)) if self.is_too_late(ran) => {
                self.warn_of_blocking(ticket, ran);
                JobEnd::TimedOut
            }
            ended => ended,
        };
        let Delivery {
            id, attempt, body, ..
        } = &ticket.job.delivery;
        let tries = (*attempt, body.attempts);
        let (verdict, reply) = judge(tries, ended, &self.deps.options, fastrand::f64());
        let replies = &self.deps.replies;
        let is_told = match &verdict {
            AttemptOutcome::Ack => replies.tell(*id, || CallResult::Replied(reply.clone())),
            AttemptOutcome::Bury(FailureReason { error, cause }) => replies.tell(*id, || {
                CallResult::Failed(error.clone().unwrap_or_else(|| cause.to_string()))
            }),
            AttemptOutcome::Discard(words) => replies.tell(*id, || {
                CallResult::Failed(words.clone().unwrap_or_else(|| "discarded".to_owned()))
            }),
            AttemptOutcome::Retry(..)
            | AttemptOutcome::Snooze(_)
            | AttemptOutcome::Expire
            | AttemptOutcome::Interrupt { .. }
            | AttemptOutcome::Release => false,
        };
        if let Some(reply) = reply
            && !is_told
            && body.headers.iter().any(|(name, _)| name == CALL_HEADER)
        {
            return self.deps.tell_after_reply(ticket.clone(), reply);
        }
        panics::reported(|| ticket.traced.ended(&ticket.job.delivery, &verdict));
        self.deps.tell(&ticket.job, ticket.started_us(), verdict);
    }

    /// Returns whether a handler on the runtime exceeded its timeout. Nothing could end it while it
    /// blocked its thread, but its attempt was over.
    fn is_too_late(&self, ran: Duration) -> bool {
        A::CAN_BE_DROPPED && ran > self.deps.options.timeout.saturating_add(SLACK)
    }

    #[cold]
    fn warn_of_blocking(&self, ticket: &Ticket, ran: Duration) {
        let ExecutorDeps {
            clock,
            options,
            surroundings,
            ..
        } = &self.deps;
        if self.deps.blocked.allows(clock.mono()) {
            panics::reported(|| {
                tracing::warn!(
                    queue = %surroundings.queue,
                    id = %ticket.job.delivery.id,
                    ?ran,
                    timeout = ?options.timeout,
                    "handler returned after its timeout, a runtime thread was blocked; \
                     declare handlers that block as `blocking`"
                );
            });
        }
    }

    /// Releases a delivery whose handler never started.
    pub(crate) fn hand_back(&self, job: &Job<Arc<Envelope>>) {
        self.deps.hand_back(job);
    }

    /// Logs the failure of an event that was published in memory, which is not retried.
    fn log_failure(&self, ended: &JobEnd<HandlerExit>) {
        let queue = &self.deps.surroundings.queue;
        match ended {
            JobEnd::Finished(HandlerExit::Returned(Err(failure), _)) => {
                let failure = &failure.text;
                panics::reported(|| {
                    tracing::warn!(%queue, %failure, "handler of a published event failed");
                });
            }
            JobEnd::Finished(HandlerExit::NotStarted) => {
                panics::reported(|| {
                    tracing::warn!(%queue, "handler of a published event was not started");
                });
            }
            JobEnd::Finished(_) => {}
            JobEnd::TimedOut => panics::reported(|| {
                tracing::warn!(%queue, "handler of a published event timed out");
            }),
            JobEnd::Panicked(words) => {
                panics::reported(|| {
                    tracing::error!(%queue, %words, "handler of a published event panicked");
                });
            }
            JobEnd::Cut => panics::reported(|| {
                tracing::warn!(%queue, "handler of a published event was cut short");
            }),
        }
    }
}

/// Decides the outcome of an attempt. Pure, so that every row can be tested.
fn judge(
    (attempt, attempts): (u16, u16),
    ended: JobEnd<HandlerExit>,
    options: &QueueOptions,
    random: f64,
) -> (AttemptOutcome, Option<Vec<u8>>) {
    let retry = |cause: Cause, delay: Option<Duration>, error: Option<String>| {
        let failing = FailureReason {
            cause,
            error: error.map(cut_error),
        };
        if attempt >= attempts {
            return AttemptOutcome::Bury(failing);
        }
        let delay = delay.unwrap_or_else(|| options.backoff.delay_after(attempt, random));
        AttemptOutcome::Retry(delay, failing)
    };
    let verdict = match ended {
        JobEnd::Finished(HandlerExit::Returned(Ok(()), reply)) => {
            return (AttemptOutcome::Ack, reply);
        }
        JobEnd::Finished(HandlerExit::Returned(Err(failure), _)) => {
            let words = Some(failure.text);
            match failure.ending {
                FailureKind::Retry => retry(Cause::Failed, None, words),
                FailureKind::RetryAfter(delay) => retry(Cause::Failed, Some(delay), words),
                FailureKind::Snooze(delay) => AttemptOutcome::Snooze(delay),
                FailureKind::Permanent => AttemptOutcome::Bury(FailureReason {
                    cause: Cause::Failed,
                    error: words,
                }),
                FailureKind::Discard => AttemptOutcome::Discard(words),
            }
        }
        JobEnd::Finished(HandlerExit::NotStarted) => AttemptOutcome::Release,
        JobEnd::Finished(HandlerExit::Late) | JobEnd::TimedOut => {
            retry(Cause::TimedOut, None, None)
        }
        JobEnd::Panicked(words) => retry(Cause::Panicked, None, Some(words)),
        JobEnd::Cut => AttemptOutcome::Interrupt {
            free: options.free_interruptions,
        },
    };
    (verdict, None)
}
