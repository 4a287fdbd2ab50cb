//! The dependencies of an executor, and the checks before a handler starts.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::codec::KeyRing;
use crate::core::op::{AttemptOutcome, Settlement};
use crate::core::step::{Input, Job};
use crate::event::{Envelope, QueueName, StaleReason};
use crate::flow::handlers::burning::BurnMeter;
use crate::flow::handlers::outside::TimeHolds;
use crate::flow::handlers::replies::Replies;
use crate::flow::handlers::ticket::{SettlePhase, Ticket};
use crate::flow::handlers::waits::QueueWaits;
use crate::flow::log_limiter::LogLimiter;
use crate::flow::node::inbox::Inbox;
use crate::flow::node::lease_fences::LeaseFences;
use crate::flow::options::QueueOptions;
use crate::handler::HandlerEnv;
use crate::metrics::{AttemptMetrics, Stages};
use crate::outage::Outage;
use crate::panics;
use crate::record::cut_error;
use crate::store::Store;
use crate::time::Clock;

/// The pause before an event whose start could not be logged is released.
const NOTE_REST: Duration = Duration::from_secs(1);

/// The dependencies of an executor besides its handler.
#[derive(Clone)]
pub(crate) struct ExecutorDeps {
    pub(crate) options: Arc<QueueOptions>,
    pub(crate) surroundings: Arc<HandlerEnv>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) fences: Arc<LeaseFences>,
    pub(crate) replies: Arc<Replies>,
    /// The handlers that wait for other handlers.
    pub(crate) waits: QueueWaits,
    pub(crate) keys: KeyRing,
    /// Holds virtual time while handlers wait for the outside world.
    pub(crate) holds: Option<Arc<TimeHolds>>,
    pub(crate) runs: Arc<AttemptMetrics>,
    /// The starts of the node that the store could not note.
    pub(crate) unnoted: Arc<Outage<QueueName>>,
    /// Notified when a blocking handler exceeds its timeout, and when it has returned.
    pub(crate) stuck: Arc<Notify>,
    /// Limits the log lines about blocked runtime threads.
    pub(crate) blocked: Arc<LogLimiter>,
    /// Notices handlers that keep threads of the runtime busy.
    pub(crate) burning: Arc<BurnMeter>,
}

/// Returns why a delivery must not start at `now_us`, though its lease is held, if so.
pub(crate) fn stale(job: &Job<Arc<Envelope>>, now_us: u64) -> Option<StaleReason> {
    let Envelope { expires, late, .. } = &*job.delivery.body;
    StaleReason::at(now_us, *expires, (*late, job.delivery.due))
}

impl ExecutorDeps {
    /// Returns whether the lease of a delivery is fresh enough to start its handler.
    pub(crate) fn is_fresh(&self, job: &Job<Arc<Envelope>>) -> bool {
        let fence = self.fences.of(job.bucket);
        fence.is_open(self.clock.mono().as_nanos(), job.delivery.request)
    }

    /// Checks on the handler's own thread whether its attempt may still start, and logs the start.
    ///
    /// The thread may be late, and an attempt that has lost its lease or was settled meanwhile must
    /// not run. It is released here.
    pub(crate) fn may_start(&self, ticket: &Ticket) -> bool {
        let (job, started_us) = (&ticket.job, self.store.now_us());
        if !self.is_fresh(job) || stale(job, started_us).is_some() {
            if ticket.tell() == SettlePhase::NotStarted {
                self.hand_back(job);
            }
            return false;
        }
        let phase = ticket.phase.as_ref();
        if phase.is_some_and(|phase| !phase.start(started_us)) {
            return false;
        }
        let noted = self.note_start(job, started_us);
        if !noted && ticket.tell() == SettlePhase::Started {
            self.hand_back_later(job);
        }
        noted
    }

    /// Writes to the store that the handler of a delivery starts; `false` if that fails.
    ///
    /// This is the last step before the handler: a logged start that does not happen costs an
    /// attempt if the process dies.
    pub(crate) fn note_start(&self, job: &Job<Arc<Envelope>>, started_us: u64) -> bool {
        let (delivery, queue) = (&job.delivery, &self.surroundings.queue);
        if let Err(error) = self.store.starting(queue, &[delivery]) {
            panics::reported(|| self.unnoted.failed(queue.clone(), &error));
            return false;
        }
        panics::reported(|| self.unnoted.succeeded(queue));
        let due_us = delivery.due.as_micros();
        let stages = Stages::of(due_us, delivery.moved_us, job.fetched_us, started_us);
        panics::reported(|| self.runs.started(&stages));
        true
    }

    /// Passes on the outcome of a delivery.
    pub(crate) fn tell(&self, job: &Job<Arc<Envelope>>, started_us: u64, verdict: AttemptOutcome) {
        let settlement = Settlement {
            verdict,
            started_us,
            ..job.release()
        };
        self.inbox.add(Input::Ended {
            bucket: job.bucket,
            settlement,
        });
    }

    /// Stores the reply of a handler that succeeded, for a caller in another process, and then
    /// passes on the outcome: who sees that the event is done finds its reply. An event whose reply
    /// cannot be stored is discarded with the reason, which its caller finds instead.
    pub(crate) fn tell_after_reply(&self, ticket: Ticket, reply: Vec<u8>) {
        let deps = self.clone();
        tokio::spawn(async move {
            let delivery = &ticket.job.delivery;
            let (event, request) = (&delivery.body, delivery.request);
            let verdict = match deps.replies.store(event, request, reply).await {
                Ok(()) => AttemptOutcome::Ack,
                Err(error) => {
                    let words = format!("handled, and its reply cannot be stored: {error}");
                    AttemptOutcome::Discard(Some(cut_error(words)))
                }
            };
            panics::reported(|| ticket.traced.ended(delivery, &verdict));
            deps.tell(&ticket.job, ticket.started_us(), verdict);
        });
    }

    /// Releases a delivery whose handler never started.
    pub(crate) fn hand_back(&self, job: &Job<Arc<Envelope>>) {
        self.tell(job, 0, AttemptOutcome::Release);
    }

    /// Releases a delivery after a pause, so that a store that cannot log starts, or a system
    /// without threads, is not called in a loop. The delivery keeps its credit until then.
    pub(crate) fn hand_back_later(&self, job: &Job<Arc<Envelope>>) {
        let (inbox, bucket, settlement) = (Arc::clone(&self.inbox), job.bucket, job.release());
        tokio::spawn(async move {
            tokio::time::sleep(NOTE_REST).await;
            inbox.add(Input::Ended { bucket, settlement });
        });
    }
}
