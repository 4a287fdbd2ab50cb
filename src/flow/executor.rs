//! One attempt, from the ring to its verdict.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::core::op::{Failing, Settlement, Verdict};
use crate::core::step::{Input, Job};
use crate::event::{Envelope, Event};
use crate::flow::attempt::{Attempt, Attempted};
use crate::flow::inbox::{Gate, Inbox};
use crate::flow::options::QueueOptions;
use crate::flow::replies::{Answered, Replies};
use crate::flow::work::{Ended, Work};
use crate::handler::{Context, Ending, Surroundings};
use crate::record::{Cause, cut_error};
use crate::retry::RetryPolicy;
use crate::store::Store;
use crate::time::Clock;

/// What travels through a ring.
pub(crate) enum Task<T> {
    /// A leased event.
    Stored(Job<Arc<Envelope>>),
    /// A value that was published straight into the ring.
    Published(T),
}

/// Runs the attempts of one queue.
pub(crate) struct Executor<A> {
    pub(crate) handler: A,
    pub(crate) options: Arc<QueueOptions>,
    pub(crate) surroundings: Arc<Surroundings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) gates: Arc<[Gate]>,
    pub(crate) replies: Arc<Replies>,
}

/// What is left of a job while its handler runs: enough to settle it.
#[derive(Clone)]
pub(crate) struct Ticket {
    settlement: Settlement,
    bucket: usize,
    attempt: u16,
    attempts: u16,
    told: Option<Arc<AtomicBool>>,
}

impl<A: Attempt> Work for Executor<A>
where
    A::Payload: DeserializeOwned,
{
    type Job = Task<A::Payload>;
    type Ticket = Option<Ticket>;
    type Output = Attempted;

    fn taken(&self, tasks: &mut VecDeque<Self::Job>) {
        let deliveries: Vec<_> = tasks
            .iter()
            .filter_map(|task| match task {
                Task::Stored(job) => Some(&job.delivery),
                Task::Published(_) => None,
            })
            .collect();
        if deliveries.is_empty() {
            return;
        }
        if let Err(error) = self.store.starting(&self.surroundings.queue, &deliveries) {
            tracing::error!(queue = %self.surroundings.queue, %error, "handlers are not started");
            for task in std::mem::take(tasks) {
                match task {
                    Task::Stored(job) => self.hand_back(&job),
                    Task::Published(_) => tasks.push_back(task),
                }
            }
        }
    }

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
        let cx = Context::new(Arc::clone(&self.surroundings));
        let late = ticket.clone().filter(|_| !A::CAN_BE_DROPPED);
        let future = self
            .handler
            .attempt(event, cx, self.options.timeout, move || {
                if let Some(ticket) = late {
                    self.settle(&ticket, Ended::TimedOut);
                }
            });
        Some((ticket, future))
    }

    fn end(&self, ticket: Self::Ticket, ended: Ended<Attempted>) {
        match ticket {
            Some(ticket) => self.settle(&ticket, ended),
            None => self.lament(&ended),
        }
    }

    fn limit(&self) -> Option<Duration> {
        A::CAN_BE_DROPPED.then_some(self.options.timeout)
    }
}

impl<A: Attempt> Executor<A>
where
    A::Payload: DeserializeOwned,
{
    /// Looks whether a delivery may start, and decodes it; otherwise deals with it.
    fn check_in(&self, job: Job<Arc<Envelope>>) -> Option<(Event<A::Payload>, Ticket)> {
        let request = job.delivery.request;
        if !self.gates[job.bucket].is_open(self.clock.mono(), request) {
            self.hand_back(&job);
            return None;
        }
        let started_us = self.clock.wall_us();
        let Job {
            bucket,
            fetched_us,
            delivery,
        } = job;
        let envelope = delivery.body;
        let mut ticket = Ticket {
            settlement: Settlement {
                id: delivery.id,
                request,
                verdict: Verdict::Expire,
                started_us: 0,
                fetched_us,
            },
            bucket,
            attempt: delivery.attempt,
            attempts: envelope.attempts,
            told: (!A::CAN_BE_DROPPED).then(Arc::default),
        };
        if envelope
            .expires
            .is_some_and(|expires| expires.as_micros() <= started_us)
        {
            self.tell(&ticket, Verdict::Expire);
            return None;
        }
        match serde_json::from_slice(envelope.payload.as_bytes()) {
            Ok(payload) => {
                ticket.settlement.started_us = started_us;
                let (due, attempt) = (delivery.due, delivery.attempt);
                Some((
                    Event::stored(payload, envelope, due, attempt, started_us),
                    ticket,
                ))
            }
            Err(error) => {
                let queue = &self.surroundings.queue;
                tracing::error!(%queue, id = %delivery.id, %error, "payload does not decode");
                let error = Some(format!("the payload does not decode: {error}"));
                self.tell(
                    &ticket,
                    Verdict::Bury(Failing {
                        cause: Cause::Undecodable,
                        error,
                    }),
                );
                None
            }
        }
    }

    /// Judges how an attempt ended and passes it on, once.
    fn settle(&self, ticket: &Ticket, ended: Ended<Attempted>) {
        if ticket
            .told
            .as_ref()
            .is_some_and(|told| told.swap(true, Ordering::Relaxed))
        {
            return;
        }
        let random = fastrand::f64();
        let (verdict, reply) = judge(ticket, ended, &self.options.backoff, random);
        let id = ticket.settlement.id;
        match &verdict {
            Verdict::Ack => self.replies.tell(id, Answered::Replied(reply)),
            Verdict::Bury(Failing { error, cause }) => {
                let words = error.clone().unwrap_or_else(|| cause.to_string());
                self.replies.tell(id, Answered::Ended(words));
            }
            Verdict::Discard(words) => {
                let words = words.clone().unwrap_or_else(|| "discarded".to_owned());
                self.replies.tell(id, Answered::Ended(words));
            }
            Verdict::Retry(..) | Verdict::Snooze(_) | Verdict::Expire | Verdict::Release => {}
        }
        self.tell(ticket, verdict);
    }

    fn tell(&self, ticket: &Ticket, verdict: Verdict) {
        let settlement = Settlement {
            verdict,
            ..ticket.settlement.clone()
        };
        self.inbox.add(Input::Ended {
            bucket: ticket.bucket,
            settlement,
        });
    }

    /// Hands a delivery back whose handler never started.
    pub(crate) fn hand_back(&self, job: &Job<Arc<Envelope>>) {
        self.inbox.add(Input::Ended {
            bucket: job.bucket,
            settlement: job.release(),
        });
    }

    /// Nobody keeps an event that was published in memory; the log says that it failed.
    fn lament(&self, ended: &Ended<Attempted>) {
        let queue = &self.surroundings.queue;
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
    ticket: &Ticket,
    ended: Ended<Attempted>,
    policy: &RetryPolicy,
    random: f64,
) -> (Verdict, Option<Vec<u8>>) {
    let retry = |cause: Cause, delay: Option<Duration>, error: Option<String>| {
        let failing = Failing {
            cause,
            error: error.map(cut_error),
        };
        if ticket.attempt >= ticket.attempts {
            return Verdict::Bury(failing);
        }
        let delay = delay.unwrap_or_else(|| policy.delay_after(ticket.attempt, random));
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
