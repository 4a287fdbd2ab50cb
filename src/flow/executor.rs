//! One attempt, from the ring to its verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::codec::KeyRing;
use crate::core::op::{Delivery, Failing, Settlement, Verdict};
use crate::core::step::{Input, Job};
use crate::event::{Envelope, Event};
use crate::flow::attempt::{Attempt, Attempted};
use crate::flow::gates::Gates;
use crate::flow::inbox::Inbox;
use crate::flow::options::QueueOptions;
use crate::flow::reading::{Reading, Unread};
use crate::flow::replies::{Answered, Replies};
use crate::flow::work::{Ended, Work};
use crate::handler::{Context, Ending, Stripes};
use crate::metrics::{Runs, Stages};
use crate::record::{Cause, cut_error};
use crate::retry::RetryPolicy;
use crate::store::Store;
use crate::time::{Clock, Mono};
use crate::trace::{self, Handled};

/// How long an event whose start could not be noted waits before it is handed back.
const NOTE_REST: Duration = Duration::from_secs(1);

/// What travels through a ring.
pub(crate) enum Task<T> {
    /// A leased event.
    Stored(Box<Job<Arc<Envelope>>>),
    /// A value that was published straight into the ring.
    Published(T),
}

/// Runs the attempts of one queue.
pub(crate) struct Executor<A: Attempt> {
    pub(crate) handler: A,
    pub(crate) means: Means,
    pub(crate) reading: Reading<A::Payload>,
}

/// What an executor works with besides its handler.
#[derive(Clone)]
pub(crate) struct Means {
    pub(crate) options: Arc<QueueOptions>,
    pub(crate) surroundings: Stripes,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) replies: Arc<Replies>,
    pub(crate) keys: KeyRing,
    pub(crate) runs: Arc<Runs>,
}

/// A stored event whose handler runs: what is needed to settle it.
#[derive(Clone)]
pub(crate) struct Ticket {
    job: Box<Job<Arc<Envelope>>>,
    started_us: u64,
    traced: Handled,
    since: Mono,
    /// Set by whoever tells first; only where two may: a handler that cannot be dropped.
    told: Option<Arc<AtomicBool>>,
}

impl<A: Attempt> Work for Executor<A>
where
    A::Payload: DeserializeOwned,
{
    type Job = Task<A::Payload>;
    type Ticket = Option<Ticket>;
    type Output = Attempted;

    fn begin(
        &self,
        task: Self::Job,
    ) -> Option<(Self::Ticket, impl Future<Output = Attempted> + Send)> {
        let (event, ticket) = match task {
            Task::Published(payload) => (Event::published(payload), None),
            Task::Stored(job) => {
                let (event, ticket) = self.check_in(job)?;
                (event, Some(ticket))
            }
        };
        let request = ticket.as_ref().map(|ticket| ticket.job.delivery.request);
        let cx = Context::new(self.means.surroundings.of_this_thread(), request);
        let late = if A::CAN_BE_DROPPED {
            None
        } else {
            ticket.clone()
        };
        let future = self
            .handler
            .attempt(event, cx, self.means.options.timeout, move || {
                if let Some(ticket) = late {
                    self.settle(&ticket, Ended::TimedOut);
                }
            });
        Some((ticket, future))
    }

    fn within<R>(&self, ticket: &Self::Ticket, run: impl FnOnce() -> R) -> R {
        match ticket {
            Some(ticket) => ticket.traced.within(run),
            None => run(),
        }
    }

    fn end(&self, ticket: Self::Ticket, ended: Ended<Attempted>) {
        match ticket {
            Some(ticket) => self.settle(&ticket, ended),
            None => self.lament(&ended),
        }
    }

    fn limit(&self) -> Option<Duration> {
        A::CAN_BE_DROPPED.then_some(self.means.options.timeout)
    }
}

impl<A: Attempt> Executor<A>
where
    A::Payload: DeserializeOwned,
{
    /// Looks whether a delivery may start, and decodes it; otherwise deals with it.
    fn check_in(&self, job: Box<Job<Arc<Envelope>>>) -> Option<(Event<A::Payload>, Ticket)> {
        let delivery = &job.delivery;
        let gate = self.means.gates.of(job.bucket);
        if !gate.is_open(self.means.clock.mono().as_nanos(), delivery.request) {
            self.hand_back(&job);
            return None;
        }
        let envelope = &delivery.body;
        let started_us = self.means.store.now_us();
        if envelope
            .expires
            .is_some_and(|expires| expires.as_micros() <= started_us)
        {
            let words = "the event expired before its handler started";
            let ended = || Answered::Ended(words.to_owned());
            self.means.replies.tell(delivery.id, ended);
            self.tell(&job, 0, Verdict::Expire);
            return None;
        }
        let payload = match self.reading.read(envelope) {
            Ok(payload) => payload,
            Err(why) => {
                self.settle_unread(&job, &why);
                return None;
            }
        };
        // The last thing before the handler: what is noted and does not start has lost an attempt
        // if the process dies.
        let queue = &self.means.surroundings.queue;
        if let Err(error) = self.means.store.starting(queue, &[delivery]) {
            tracing::error!(%queue, id = %delivery.id, %error, "the handler is not started");
            self.hand_back_later(&job);
            return None;
        }
        let (due, attempt) = (delivery.due, delivery.attempt);
        let (moved_us, fetched_us) = (delivery.moved_us, job.fetched_us);
        let stages = Stages::of(due.as_micros(), moved_us, fetched_us, started_us);
        self.means.runs.started(&stages);
        let event = Event::stored(payload, Arc::clone(envelope), due, attempt, started_us);
        let ticket = Ticket {
            traced: trace::handle(&job.delivery, started_us),
            job,
            started_us,
            since: self.means.clock.mono(),
            told: (!A::CAN_BE_DROPPED).then(Arc::default),
        };
        Some((event, ticket))
    }

    /// What is no payload of this handler will not be one at the next attempt either, unless a newer
    /// build has pushed it, which may be on its way to this process.
    fn settle_unread(&self, job: &Job<Arc<Envelope>>, why: &Unread) {
        let delivery = &job.delivery;
        let (cause, tries_again) = match why {
            Unread::Undecodable(_) => (Cause::Undecodable, false),
            Unread::Newer(_) => (
                Cause::Undecodable,
                delivery.attempt < delivery.body.attempts,
            ),
            Unread::Undecryptable(_) => (Cause::Undecryptable, false),
        };
        // The reason may quote the payload, whatever its length.
        let words = cut_error(why.to_string());
        let failing = Failing {
            cause,
            error: Some(words.clone()),
        };
        if tries_again {
            let policy = &self.means.options.backoff;
            let delay = policy.delay_after(delivery.attempt, fastrand::f64());
            trace::unread(delivery, cause, Some(delay));
            return self.tell(job, 0, Verdict::Retry(delay, failing));
        }
        trace::unread(delivery, cause, None);
        self.means
            .replies
            .tell(delivery.id, || Answered::Ended(words));
        self.tell(job, 0, Verdict::Bury(failing));
    }

    /// Judges how an attempt ended and passes it on, once.
    fn settle(&self, ticket: &Ticket, ended: Ended<Attempted>) {
        let told = ticket.told.as_ref();
        if told.is_some_and(|told| told.swap(true, Ordering::Relaxed)) {
            return;
        }
        let ran = self.means.clock.mono().since(ticket.since);
        self.means.runs.ended(ran);
        let Delivery {
            id, attempt, body, ..
        } = &ticket.job.delivery;
        let tries = (*attempt, body.attempts);
        let (verdict, reply) = judge(tries, ended, &self.means.options.backoff, fastrand::f64());
        match &verdict {
            Verdict::Ack => self.means.replies.tell(*id, || Answered::Replied(reply)),
            Verdict::Bury(Failing { error, cause }) => self.means.replies.tell(*id, || {
                Answered::Ended(error.clone().unwrap_or_else(|| cause.to_string()))
            }),
            Verdict::Discard(words) => self.means.replies.tell(*id, || {
                Answered::Ended(words.clone().unwrap_or_else(|| "discarded".to_owned()))
            }),
            Verdict::Retry(..) | Verdict::Snooze(_) | Verdict::Expire | Verdict::Release => {}
        }
        ticket.traced.ended(&ticket.job.delivery, &verdict);
        self.tell(&ticket.job, ticket.started_us, verdict);
    }

    fn tell(&self, job: &Job<Arc<Envelope>>, started_us: u64, verdict: Verdict) {
        let settlement = Settlement {
            verdict,
            started_us,
            ..job.release()
        };
        self.means.inbox.add(Input::Ended {
            bucket: job.bucket,
            settlement,
        });
    }

    /// Hands a delivery back whose handler never started.
    pub(crate) fn hand_back(&self, job: &Job<Arc<Envelope>>) {
        self.tell(job, 0, Verdict::Release);
    }

    /// Hands a delivery back after a rest, so that a store that cannot note starts is not asked at
    /// full speed; until then it keeps its credit.
    fn hand_back_later(&self, job: &Job<Arc<Envelope>>) {
        let (inbox, bucket, settlement) =
            (Arc::clone(&self.means.inbox), job.bucket, job.release());
        tokio::spawn(async move {
            tokio::time::sleep(NOTE_REST).await;
            inbox.add(Input::Ended { bucket, settlement });
        });
    }

    /// Nobody keeps an event that was published in memory; the log says that it failed.
    fn lament(&self, ended: &Ended<Attempted>) {
        let queue = &self.means.surroundings.queue;
        match ended {
            Ended::Finished(Attempted::Returned(Err(failure), _)) => {
                tracing::warn!(%queue, %failure, "handler of a published event failed");
            }
            Ended::Finished(_) => {}
            Ended::TimedOut => tracing::warn!(%queue, "handler of a published event timed out"),
            Ended::Panicked(words) => {
                tracing::error!(%queue, %words, "handler of a published event panicked");
            }
            Ended::Cut => tracing::warn!(%queue, "handler of a published event was cut short"),
        }
    }
}

/// Decides what becomes of an event; pure, so every row can be read and tested.
fn judge(
    (attempt, attempts): (u16, u16),
    ended: Ended<Attempted>,
    policy: &RetryPolicy,
    random: f64,
) -> (Verdict, Option<Vec<u8>>) {
    let retry = |cause: Cause, delay: Option<Duration>, error: Option<String>| {
        let failing = Failing {
            cause,
            error: error.map(cut_error),
        };
        if attempt >= attempts {
            return Verdict::Bury(failing);
        }
        let delay = delay.unwrap_or_else(|| policy.delay_after(attempt, random));
        Verdict::Retry(delay, failing)
    };
    let verdict = match ended {
        Ended::Finished(Attempted::Returned(Ok(()), reply)) => return (Verdict::Ack, reply),
        Ended::Finished(Attempted::Returned(Err(failure), _)) => {
            let words = Some(failure.to_string());
            match failure.ending() {
                Ending::Retry => retry(Cause::Failed, None, words),
                Ending::RetryAfter(delay) => retry(Cause::Failed, Some(delay), words),
                Ending::Snooze(delay) => Verdict::Snooze(delay),
                Ending::Permanent => Verdict::Bury(Failing {
                    cause: Cause::Failed,
                    error: words.map(cut_error),
                }),
                Ending::Discard => Verdict::Discard(words.map(cut_error)),
            }
        }
        Ended::Finished(Attempted::Late) | Ended::TimedOut => retry(Cause::TimedOut, None, None),
        Ended::Panicked(words) => retry(Cause::Panicked, None, Some(words)),
        Ended::Cut => retry(Cause::Interrupted, Some(Duration::ZERO), None),
    };
    (verdict, None)
}
