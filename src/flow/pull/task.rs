//! The task of a puller: feeds it inputs and carries out its actions.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::oneshot;

use crate::core::op::Response;
use crate::core::pull::{PullAction, PullInput, PullOptions, Puller, RequesterId};
use crate::core::step::CallId;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Envelope, QueueName};
use crate::flow::pull::hand_off::HandOff;
use crate::flow::pull::pulled_queues::SPARE;
use crate::flow::pull::{PullMessage, Pulls, SettledPulls, closed};
use crate::outage::Outage;
use crate::panics;
use crate::store::{Control, StoreFuture, in_time};
use crate::time::Mono;

/// The timeout of a store call; it is repeated afterwards.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How many turns it takes before it lets other tasks run.
const TURNS_MAX: usize = 32;

/// Runs the puller of a bus.
pub(super) struct PullTask {
    pulls: Arc<Pulls>,
    puller: Puller<Arc<Envelope>>,
    replies: BTreeMap<RequesterId, oneshot::Sender<Result<HandOff>>>,
    /// The settings that were last applied to each queue.
    settings: BTreeMap<QueueName, Control>,
    /// The store calls in flight; few for each bucket.
    calls: FuturesUnordered<CallInFlight>,
    /// Their replies that are still to be handled.
    ready: Vec<CallReply>,
    /// Those that wait until nothing is to be done.
    settling: Vec<oneshot::Sender<SettledPulls>>,
    outage: Outage,
}

type Responses = VecDeque<PullInput<Arc<Envelope>>>;

/// A store call that did not complete at once.
type CallInFlight = Pin<Box<dyn Future<Output = CallReply> + Send>>;

/// The reply to a store call, and its number.
type CallReply = (CallId, Result<Response>);

impl PullTask {
    pub(super) fn new(pulls: Arc<Pulls>, options: PullOptions) -> Self {
        Self {
            puller: Puller::new(pulls.node, options, |body| body.payload.len()),
            pulls,
            replies: BTreeMap::new(),
            settings: BTreeMap::new(),
            calls: FuturesUnordered::new(),
            ready: Vec::new(),
            settling: Vec::new(),
            outage: Outage::of("calls of consumers that pull"),
        }
    }

    /// Runs until the puller has stopped or is abandoned.
    pub(super) async fn run(mut self) {
        let stopped = self.pulls.stopped.clone().drop_guard();
        let pulls = Arc::clone(&self.pulls);
        let is_shared = pulls.store.is_shared();
        let mut turns = 0;
        while !self.puller.is_stopped() && !pulls.abandoned.is_cancelled() {
            if self.turn() {
                turns += 1;
                if turns % TURNS_MAX == 0 {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            if self.calls.is_empty() {
                for waiting in self.settling.drain(..) {
                    let held = self.puller.held(pulls.clock.mono());
                    let more_at = held.values().flatten().copied();
                    let wakes = more_at.chain([self.puller.wakes()]).min();
                    let settled = SettledPulls {
                        wakes: wakes.filter(|at| *at != Mono::MAX),
                        held: held.into_keys().collect(),
                    };
                    let _ = waiting.send(settled); // whoever is gone needs no reply
                }
            }
            let span = self.puller.wakes().since(pulls.clock.mono());
            let span = span.min(Duration::from_secs(86_400));
            tokio::select! {
                () = pulls.notify.notified() => {}
                () = pulls.controls.changed() => self.follow(),
                () = pulls.abandoned.cancelled() => {}
                () = tokio::time::sleep(span) => {}
                Some(reply) = self.calls.next(), if !self.calls.is_empty() => self.ready.push(reply),
            }
            if is_shared {
                // What else can run now may ask as well: then one call is enough for all.
                tokio::task::yield_now().await;
            }
        }
        drop(stopped);
        self.pulls.close();
        self.replies.clear(); // whoever is left is refused now, not when the last call has ended
        // What was sent is not taken back.
        while self.calls.next().await.is_some() {}
    }

    /// Does what is to be done now; returns whether there may be more.
    fn turn(&mut self) -> bool {
        let now = self.pulls.clock.mono();
        let mut actions = Vec::new();
        while let Some(Some(reply)) = self.calls.next().now_or_never() {
            self.ready.push(reply);
        }
        let mut has_messages = !self.ready.is_empty();
        for (call, response) in std::mem::take(&mut self.ready) {
            let response = note_outcome(&self.outage, response);
            let answered = PullInput::Answered { call, response };
            self.puller.handle(now, answered, &mut actions);
        }
        let messages = self.pulls.take();
        // A setting that was confirmed holds for whoever came after it.
        if self.pulls.controls.changed().now_or_never().is_some() {
            self.follow();
        }
        has_messages |= !messages.is_empty();
        for message in messages {
            self.take(now, message, &mut actions);
        }
        self.puller.turn(now, &mut actions);
        let is_pulled = |queue: &QueueName| self.puller.serves(queue);
        let pulled = self.puller.queues();
        self.pulls.queues.forget_others(pulled, is_pulled);
        if self.settings.len() > 2 * pulled + SPARE {
            self.settings.retain(|queue, _| self.puller.serves(queue));
        }
        let is_busy = has_messages || !actions.is_empty();
        let mut responses = Responses::new();
        self.act(actions, &mut responses);
        while let Some(response) = responses.pop_front() {
            let now = self.pulls.clock.mono();
            let mut actions = Vec::new();
            self.puller.handle(now, response, &mut actions);
            self.act(actions, &mut responses);
        }
        is_busy || self.puller.wakes() <= now
    }

    fn take(
        &mut self,
        now: Mono,
        message: PullMessage,
        actions: &mut Vec<PullAction<Arc<Envelope>>>,
    ) {
        match message {
            PullMessage::Input(input) => self.puller.handle(now, input, actions),
            PullMessage::Lease(order, buckets, reply) => {
                if reply.is_closed() {
                    return; // it is gone already
                }
                for (queue, many) in order.queues.iter().zip(buckets) {
                    if !self.puller.serves(queue) {
                        let buckets = self.pulls.queues.buckets(queue, many);
                        let queue = queue.clone();
                        self.settings.remove(&queue);
                        let serve = PullInput::Serve {
                            queue: queue.clone(),
                            buckets,
                        };
                        self.puller.handle(now, serve, actions);
                        self.apply(now, &queue, actions);
                    }
                }
                self.replies.insert(order.requester, reply);
                self.puller.handle(now, PullInput::Lease(order), actions);
            }
            PullMessage::Settle(waiting) => self.settling.push(waiting),
            PullMessage::Buckets(buckets) => {
                for bucket in buckets {
                    if self.puller.serves(&bucket.queue) {
                        let (queue, buckets) = (bucket.queue.clone(), vec![bucket]);
                        let serve = PullInput::Serve { queue, buckets };
                        self.puller.handle(now, serve, actions);
                    }
                }
            }
        }
    }

    /// Applies the runtime settings of a queue, if they have changed.
    fn apply(
        &mut self,
        now: Mono,
        queue: &QueueName,
        actions: &mut Vec<PullAction<Arc<Envelope>>>,
    ) {
        let control = self.pulls.controls.in_force(queue);
        let before = self.settings.insert(queue.clone(), control);
        if before != Some(control) {
            let set = PullInput::Set {
                queue: queue.clone(),
                is_paused: control.paused,
                rate: control.rate,
            };
            self.puller.handle(now, set, actions);
        }
    }

    /// Follows the runtime settings of all queues.
    fn follow(&mut self) {
        let (now, mut actions) = (self.pulls.clock.mono(), Vec::new());
        self.settings.retain(|queue, _| self.puller.serves(queue));
        let queues: Vec<QueueName> = self.settings.keys().cloned().collect();
        for queue in queues {
            self.apply(now, &queue, &mut actions);
        }
    }

    /// Carries out actions; results of store calls that complete at once are added to `responses`.
    fn act(&mut self, actions: Vec<PullAction<Arc<Envelope>>>, responses: &mut Responses) {
        for action in actions {
            match action {
                PullAction::Reply { requester, leased } => {
                    let Some(reply) = self.replies.remove(&requester) else {
                        continue;
                    };
                    let leased = leased.map_err(refused);
                    let leased = leased.map(|it| HandOff::new(it, Arc::clone(&self.pulls)));
                    let _ = reply.send(leased); // if the caller is gone, it is handed back
                }
                PullAction::Call { call, bucket, op } => {
                    let response = panics::caught(|| self.pulls.store.apply(&bucket, op));
                    let mut response = response.unwrap_or_else(|words| {
                        StoreFuture::ready(Err(Error::new(ErrorKind::Unknown, words)))
                    });
                    let mut cx = Context::from_waker(Waker::noop());
                    if let Poll::Ready(response) = Pin::new(&mut response).poll(&mut cx) {
                        self.pulls.count(&bucket, &response);
                        let response = note_outcome(&self.outage, response);
                        responses.push_back(PullInput::Answered { call, response });
                        continue;
                    }
                    let pulls = Arc::clone(&self.pulls);
                    self.calls.push(Box::pin(async move {
                        let response = in_time(CALL_TIMEOUT, ErrorKind::Unknown, response).await;
                        pulls.count(&bucket, &response);
                        (call, response)
                    }));
                }
            }
        }
    }
}

/// Whether it has stopped, was never run, or its runtime has ended: nobody waits for it any more.
impl Drop for PullTask {
    fn drop(&mut self) {
        self.pulls.close();
    }
}

/// Logs failures of the store in a bounded number of lines.
fn note_outcome<T>(outage: &Outage, response: Result<T>) -> Result<T, ErrorKind> {
    match &response {
        Ok(_) => outage.succeeded(&()),
        Err(error) => outage.failed((), error),
    }
    response.map_err(|error| error.kind())
}

fn refused(kind: ErrorKind) -> Error {
    match kind {
        ErrorKind::Closed => closed(),
        ErrorKind::Full => Error::new(
            kind,
            "too many callers wait for events, or too many queues are pulled from",
        ),
        kind => Error::new(kind, "the store failed to lease events"),
    }
}
