//! The mover: drives the node's state machines, on its own thread with a precise timer.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::background::Background;
use crate::core::node::Node;
use crate::core::op::Response;
use crate::core::step::{Action, CallId, Input};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Envelope;
use crate::flow::call_metrics::CallMetrics;
use crate::flow::consumers::consumer::Consumer;
use crate::flow::consumers::gauges::GaugeUpdater;
use crate::flow::log_limiter::LogLimiter;
use crate::flow::membership::poll::MembershipPoll;
use crate::flow::node::inbox::{Inbox, NodeInput, WakeTarget};
use crate::flow::node::lease_fences::LeaseFences;
use crate::metrics::MoverCounters;
use crate::outage::Outage;
use crate::panics;
use crate::store::{Store, StoreFuture, in_time};
use crate::time::{Clock, Mono};
use crate::trace;

/// The timeout of a store call; it is repeated afterwards.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// When this many attempts end between two sleeps, more are about to.
const DENSE: usize = 8;
/// The most ended attempts that are gathered before the mover is woken.
const TOGETHER_MAX: usize = 64;
/// The longest that ended attempts are gathered.
const PATIENCE: Duration = Duration::from_micros(300);

/// How many inputs and actions keep their place over a sleep: at a start there are far more.
const KEPT_MAX: usize = 1024;

/// Drives the node: feeds it inputs and carries out its actions.
///
/// It never waits for a handler, a full ring or a slow store: a call that does not complete at once
/// goes on in the runtime, and its result arrives in the inbox.
pub(crate) struct Mover {
    pub(crate) node: Node<Arc<Envelope>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) consumers: Vec<Arc<dyn Consumer>>,
    /// The inputs and actions of a turn; kept for their capacity.
    pub(crate) inputs: Vec<NodeInput>,
    pub(crate) actions: Vec<Action<Arc<Envelope>>>,
    pub(crate) fences: Arc<LeaseFences>,
    /// The counters of each queue's moves.
    pub(crate) moves: Vec<Arc<MoverCounters>>,
    pub(crate) gauges: GaugeUpdater,
    /// Limits the lines of refused outcomes.
    pub(crate) refused: LogLimiter,
    /// Limits the lines of buckets of a store that has stopped.
    pub(crate) store_failed: LogLimiter,
    pub(crate) inbox: Arc<Inbox>,
    /// `None` where the store has only one node.
    pub(crate) membership: Option<Arc<MembershipPoll>>,
    /// The buckets that the store does not serve, by index.
    pub(crate) outage: Arc<Outage<usize>>,
    /// Notified when another node is lost.
    pub(crate) member_lost: Arc<Notify>,
    /// Where calls to the store go on.
    pub(crate) calls: Arc<Background>,
    /// Cancelled when the node has stopped.
    pub(crate) stopped: CancellationToken,
    /// Cancelled to end the mover at once, whatever is left.
    pub(crate) abandoned: CancellationToken,
}

impl Mover {
    /// Runs on its own thread until the node has stopped.
    ///
    /// # Errors
    ///
    /// When the system cannot start a thread.
    pub(crate) fn spawn_thread(mut self) -> Result<()> {
        let inbox = Arc::clone(&self.inbox);
        let calls = Arc::clone(&self.calls);
        let run = move || {
            use_precise_timers();
            let _ended = self.stopped.clone().drop_guard();
            let _entered = calls.enter(); // a store may arm the runtime's timers
            while !self.is_over() {
                match self.turn(true) {
                    Mono::MAX => std::thread::park(),
                    at => std::thread::park_timeout(at.since(self.clock.mono())),
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("duly-mover".into())
            .spawn(run);
        let thread = thread.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "failed to start the mover's thread").because(error)
        })?;
        inbox.set_wake_target(WakeTarget::Thread(thread.thread().clone()));
        thread.thread().unpark(); // inputs may have arrived before it could be woken
        Ok(())
    }

    /// Runs as a task of the runtime: threads do not see virtual time.
    pub(crate) fn spawn_task(mut self) {
        let notify = Arc::new(Notify::new());
        self.inbox
            .set_wake_target(WakeTarget::Task(Arc::clone(&notify)));
        let calls = Arc::clone(&self.calls);
        calls.spawn(async move {
            let _ended = self.stopped.clone().drop_guard();
            while !self.is_over() {
                let at = self.turn(false);
                let span = at.since(self.clock.mono()).min(Duration::from_secs(86_400));
                tokio::select! {
                    () = notify.notified() => {}
                    () = self.abandoned.cancelled() => {}
                    () = tokio::time::sleep(span) => {}
                }
            }
        });
    }

    fn is_over(&self) -> bool {
        self.stopped.is_cancelled() || self.abandoned.is_cancelled()
    }

    /// Does everything that is due; returns when the mover must run next.
    ///
    /// While many attempts end, `patient` lets some gather before they wake the mover: a wake-up
    /// costs more than an attempt.
    fn turn(&mut self, patient: bool) -> Mono {
        let mut responses = VecDeque::new();
        let mut ended = 0;
        loop {
            self.inbox.take(&mut self.inputs);
            let now = self.clock.mono();
            for input in self.inputs.drain(..).chain(responses.drain(..)) {
                ended += usize::from(matches!(input, Input::Ended { .. }));
                self.node.handle(now, input, &mut self.actions);
            }
            self.node.turn(now, &mut self.actions);
            let mut actions = std::mem::take(&mut self.actions);
            let is_idle = actions.is_empty();
            for action in actions.drain(..) {
                responses.extend(self.act_or_report(action));
            }
            self.actions = actions; // keeps its capacity
            if !is_idle {
                continue;
            }
            let ends_at = if patient && ended >= DENSE {
                (self.node.outstanding() / 4).clamp(1, TOGETHER_MAX)
            } else {
                1
            };
            if self.inbox.may_sleep(ends_at) {
                self.inputs.shrink_to(KEPT_MAX);
                self.actions.shrink_to(KEPT_MAX);
                let at = self.node.wakes();
                let waits = |queue| self.node.waits_for_rate(now, queue);
                let gauges = || self.gauges.before_sleep(now, at, &self.consumers, waits);
                let at = panics::caught(gauges).unwrap_or(at);
                return if ends_at > 1 {
                    at.min(now + PATIENCE)
                } else {
                    at
                };
            }
        }
    }

    /// As [`act`](Self::act); an action that panics is logged, and a call counts as one whose reply
    /// was lost. What may panic is the code of a log subscriber or of a metrics recorder.
    fn act_or_report(&self, action: Action<Arc<Envelope>>) -> Option<NodeInput> {
        let call = match &action {
            Action::Call { call, .. } => Some(*call),
            _ => None,
        };
        panics::caught(|| self.act(action)).unwrap_or_else(|words| {
            panics::reported(|| tracing::error!(words, "an action of the mover panicked"));
            Some(Input::Answered {
                call: call?,
                arrived: self.clock.mono(),
                response: Err(ErrorKind::Unknown),
            })
        })
    }

    /// Carries out one action; returns the result of a store call that completed at once.
    fn act(&self, action: Action<Arc<Envelope>>) -> Option<NodeInput> {
        match action {
            Action::Call { call, bucket, op } => {
                let tally = CallMetrics::of(&self.moves[self.node.queue_of(bucket)], &op);
                let key = self.node.bucket(bucket);
                let span = panics::caught(|| trace::call_of_settle(key, &op));
                let span = span.unwrap_or_else(|_| Span::none());
                let response = span.in_scope(|| self.store.apply(key, op));
                let outage = Arc::clone(&self.outage);
                let context = CallContext {
                    tally,
                    span,
                    outage,
                    bucket,
                };
                return self.ask(call, response, context);
            }
            Action::PollMembers => {
                if let Some(poll) = &self.membership {
                    self.calls.spawn(Arc::clone(poll).poll_in_background());
                }
            }
            Action::MemberLost => self.member_lost.notify_one(),
            Action::Served { bucket } => {
                let key = self.node.bucket(bucket).clone();
                self.inbox.serves(key, bucket);
            }
            Action::Publish { queue, jobs } => self.consumers[queue].publish_jobs(jobs),
            Action::Withdraw { queue } => self.consumers[queue].withdraw(),
            Action::Fresh { bucket, until } => self.fences.of(bucket).fresh(until.as_nanos()),
            Action::Lost {
                bucket,
                through,
                is_certain,
            } => {
                self.fences.of(bucket).lost(through); // before anything that may panic
                let bucket_key = self.node.bucket(bucket);
                if is_certain {
                    panics::reported(|| {
                        tracing::warn!(
                            bucket = %bucket_key, through,
                            "leases lost to another node"
                        );
                    });
                } else {
                    panics::reported(|| {
                        tracing::debug!(
                            bucket = %bucket_key, through,
                            "leases not renewed in time; events that have not started are \
                             handed back"
                        );
                    });
                }
            }
            Action::Refused { bucket, lost } => {
                let bucket = self.node.bucket(bucket);
                // A server that forgot everything refuses those of each bucket; metrics count all.
                if self.refused.allows(self.clock.mono()) {
                    panics::reported(|| {
                        tracing::warn!(
                            %bucket, lost,
                            "outcomes arrived after their lease was lost; further ones are logged \
                             at debug level for a minute"
                        );
                    });
                } else {
                    panics::reported(|| {
                        tracing::debug!(
                            %bucket, lost, "outcomes arrived after their lease was lost"
                        );
                    });
                }
            }
            Action::StoreFailed { bucket, kind } => {
                let bucket = self.node.bucket(bucket);
                // It stops for all of its buckets.
                if self.store_failed.allows(self.clock.mono()) {
                    panics::reported(|| {
                        tracing::error!(
                            %bucket, ?kind,
                            "store stopped; bucket no longer polled; further ones are logged at \
                             debug level for a minute"
                        );
                    });
                } else {
                    panics::reported(|| {
                        tracing::debug!(%bucket, ?kind, "store stopped; bucket no longer polled");
                    });
                }
            }
            Action::Stopped => self.stopped.cancel(),
        }
        None
    }

    fn ask(
        &self,
        call: CallId,
        mut response: StoreFuture<Response>,
        context: CallContext,
    ) -> Option<NodeInput> {
        let mut cx = Context::from_waker(Waker::noop());
        let span = &context.span;
        if let Poll::Ready(response) = span.in_scope(|| Pin::new(&mut response).poll(&mut cx)) {
            return Some(reply_of(call, response, self.clock.mono(), context));
        }
        let (inbox, clock) = (Arc::clone(&self.inbox), Arc::clone(&self.clock));
        self.calls.spawn(async move {
            let response = in_time(CALL_TIMEOUT, ErrorKind::Unknown, response);
            let response = response.instrument(context.span.clone());
            let response = AssertUnwindSafe(response).catch_unwind().await;
            let response = response.unwrap_or_else(|panic| {
                // The span's subscriber did.
                Err(Error::new(ErrorKind::Unknown, panics::message(panic)))
            });
            inbox.add(reply_of(call, response, clock.mono(), context));
        });
        None
    }
}

/// Makes timeouts of this thread end on time: by default Linux lets them end up to 50 µs later, so that
/// one wake-up serves several. Where it is not allowed, events start that much later.
fn use_precise_timers() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
}

/// What a call's result is reported to, besides the node.
struct CallContext {
    tally: CallMetrics,
    span: Span,
    outage: Arc<Outage<usize>>,
    bucket: usize,
}

fn reply_of(
    call: CallId,
    response: Result<Response>,
    arrived: Mono,
    context: CallContext,
) -> NodeInput {
    let CallContext {
        tally,
        span,
        outage,
        bucket,
    } = context;
    // Whatever reports panic, the node gets its reply.
    panics::reported(|| {
        trace::settled(&span, response.as_ref().err());
        tally.count(&response);
    });
    match &response {
        Ok(_) => outage.succeeded(&bucket),
        // The lease is lost, but the store is well.
        Err(error) if error.kind() == ErrorKind::LeaseLost => {}
        Err(error) => outage.failed(bucket, error),
    }
    panics::dropped(span); // its end is reported, too
    let response = response.map_err(|error| error.kind());
    Input::Answered {
        call,
        arrived,
        response,
    }
}
