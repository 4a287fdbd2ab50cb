//! Consumers that pull: the handle of callers, and the task that runs the puller of `core`.

mod hand_off;
mod pulled_queues;
mod task;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OnceCell, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::hand_off::HandOff;
use self::pulled_queues::{PulledQueues, QueueCaller};
use self::task::PullTask;
use crate::core::op::{FetchReport, MoveReport, Reply, Response, SetAside};
use crate::core::pull::{LeaseOrder, PullInput, PullOptions, PulledEvent, RequesterId};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, Envelope, QueueName};
use crate::flow::runtime_settings::RuntimeSettings;
use crate::metrics::PullMeters;
use crate::panics;
use crate::record::NodeId;
use crate::store::{Store, Watcher};
use crate::time::{Clock, Mono, Timestamp};

/// How long the first caller of some queues waits for the lists of their buckets; those of the
/// settings are known.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a caller waits for the task beyond its own time: twice a store call, whose timeout is
/// 10 s. Only a runtime that nobody drives, or whose threads are all blocked, takes longer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// An input of the task.
enum PullMessage {
    Input(PullInput<Arc<Envelope>>),
    /// A caller, with its reply's receiver and the number of buckets of each of its queues.
    Lease(LeaseOrder, Vec<u16>, oneshot::Sender<Result<HandOff>>),
    /// These buckets exist.
    Buckets(Vec<BucketKey>),
    /// Somebody waits until nothing is to be done now.
    Settle(oneshot::Sender<SettledPulls>),
}

/// What is so when nothing is to be done.
#[derive(Debug, Default)]
pub(crate) struct SettledPulls {
    /// When there is something to do; `None` is never.
    pub(crate) wakes: Option<Mono>,
    /// The queues of which nothing may be leased now.
    pub(crate) held: BTreeSet<QueueName>,
}

/// What a caller asks for.
#[derive(Debug)]
pub(crate) struct PullOrder {
    /// The queues, each with its number of buckets, the most important first.
    pub(crate) queues: Vec<(QueueName, u16)>,
    /// The most events.
    pub(crate) max: usize,
    /// The most bytes of payloads; the last one may exceed it.
    pub(crate) bytes_max: usize,
    /// The duration of the leases.
    pub(crate) ttr: Duration,
    /// How long to wait for an event if none is ready.
    pub(crate) wait: Duration,
}

/// The handle of a bus's puller, which starts with the first caller.
pub(crate) struct Pulls {
    /// The holder of its leases: another one than the bus's handlers, which have a heartbeat.
    pub(crate) node: NodeId,
    store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    controls: Arc<RuntimeSettings>,
    options: PullOptions,
    meters: PullMeters,
    runtime: Handle,
    /// The messages that the task has not seen yet; `None`: there is no task any more, and what is
    /// added is dropped, so that its caller is refused.
    messages: Mutex<Option<Vec<PullMessage>>>,
    notify: Notify,
    queues: PulledQueues,
    next: AtomicU64,
    started: OnceCell<()>,
    is_running: AtomicBool,
    /// Cancelled when it has stopped.
    stopped: CancellationToken,
    /// Cancelled to end it at once.
    abandoned: CancellationToken,
}

impl Pulls {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        controls: Arc<RuntimeSettings>,
        meters: PullMeters,
        options: PullOptions,
    ) -> Self {
        Self {
            node: NodeId(fastrand::u64(1..)),
            store,
            clock,
            controls,
            options,
            meters,
            runtime: Handle::current(),
            messages: Mutex::new(Some(Vec::new())),
            notify: Notify::new(),
            queues: PulledQueues::default(),
            next: AtomicU64::new(0),
            started: OnceCell::new(),
            is_running: AtomicBool::new(false),
            stopped: CancellationToken::new(),
            abandoned: CancellationToken::new(),
        }
    }

    /// Counts the events that were ended because they were of no use any more, and those whose lease
    /// has ended.
    fn count(&self, bucket: &BucketKey, response: &Result<Response>) {
        let (meters, queue) = (&self.meters, &bucket.queue);
        match response.as_ref().map(|response| &response.reply) {
            Ok(
                Reply::Moved(MoveReport { aside, .. }) | Reply::Fetched(FetchReport { aside, .. }),
            ) if *aside != SetAside::default() => {
                meters.report(queue, |it| it.settles.set_aside(aside.expired, aside.late));
            }
            Ok(Reply::Reaped(reaped)) if reaped.ready + reaped.dead > 0 => {
                meters.report(queue, |it| it.settles.reaped(reaped.ready + reaped.dead));
            }
            _ => {}
        }
    }

    /// Leases events. If the future is dropped, whatever was leased for it is handed back.
    ///
    /// # Errors
    ///
    /// The store's error; [`ErrorKind::Full`] with too many callers; [`ErrorKind::Closed`] when the
    /// bus stops.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        order: &PullOrder,
    ) -> Result<Vec<PulledEvent<Arc<Envelope>>>> {
        let start = async || self.start();
        self.started.get_or_try_init(start).await?;
        let until = Instant::now() + order.wait;
        let requester = self.next.fetch_add(1, Ordering::Relaxed);
        let pulled = self.queues.begin(&order.queues);
        self.list(&pulled).await;
        let (sender, mut receiver) = oneshot::channel();
        let waits = Instant::now() < until;
        let lease_order = LeaseOrder {
            requester,
            queues: order.queues.iter().map(|(name, _)| name.clone()).collect(),
            max: order.max,
            bytes_max: order.bytes_max,
            hold: order.ttr,
            waits,
        };
        let buckets = order.queues.iter().map(|(_, many)| *many).collect();
        self.add(PullMessage::Lease(lease_order, buckets, sender));
        let mut caller = Caller {
            pulls: self,
            requester: Some(requester),
        };
        if waits {
            tokio::select! {
                biased; // the reply before the end of the wait
                reply = &mut receiver => {
                    caller.requester = None;
                    return taken(reply);
                }
                () = tokio::time::sleep_until(until) => {
                    self.add(PullMessage::Input(PullInput::Expired(requester)));
                }
            }
        }
        let Ok(reply) = tokio::time::timeout(REPLY_TIMEOUT, receiver).await else {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the runtime of the bus does not run its tasks; whatever is leased later is handed \
                 back",
            ));
        };
        caller.requester = None;
        taken(reply)
    }

    /// Notes that a lease was extended: it is reaped at its new deadline.
    pub(crate) fn extended(&self, bucket: BucketKey, deadline: Timestamp) {
        if self.is_running.load(Ordering::Acquire) {
            self.add(PullMessage::Input(PullInput::Extended(bucket, deadline)));
        }
    }

    /// Starts the task.
    fn start(self: &Arc<Self>) -> Result<()> {
        // Held weakly, or the store and its puller would keep each other alive.
        let watcher: Weak<Self> = Arc::downgrade(self);
        self.store.watch(watcher)?;
        let task = PullTask::new(Arc::clone(self), self.options.clone());
        self.is_running.store(true, Ordering::Release);
        if self.abandoned.is_cancelled() {
            return Ok(()); // it stopped meanwhile; the task that is dropped refuses everybody
        }
        self.runtime.spawn(task.run());
        Ok(())
    }

    /// Lists the buckets of a caller's queues that were not, all at once: until the stop at most.
    async fn list(&self, caller: &QueueCaller<'_>) {
        let lists = caller
            .unlisted()
            .into_iter()
            .map(|queue| self.list_one(queue));
        tokio::select! {
            biased; // nothing is waited for where all are listed
            _ = join_all(lists) => {}
            () = self.abandoned.cancelled() => {}
            () = tokio::time::sleep(LIST_TIMEOUT) => {
                let late = caller.unlisted();
                let queues = late.len();
                panics::reported(|| {
                    tracing::warn!(queues, "lists of the buckets to pull from are late");
                });
                for queue in late {
                    self.queues.listed(&queue, &[]);
                }
            }
        }
    }

    async fn list_one(&self, queue: QueueName) {
        let listed = self.store.buckets_of(&queue).await;
        let buckets = listed.map(|known| known.buckets).unwrap_or_else(|error| {
            panics::reported(|| {
                tracing::warn!(%queue, %error, "failed to list the buckets to pull from");
            });
            Vec::new()
        });
        self.serve(self.queues.listed(&queue, &buckets));
    }

    /// Notes buckets that exist.
    pub(crate) fn found(&self, buckets: &[BucketKey]) {
        self.serve(self.queues.add(buckets));
    }

    /// Has new buckets served.
    fn serve(&self, new: Vec<BucketKey>) {
        if !new.is_empty() {
            self.add(PullMessage::Buckets(new));
        }
    }

    /// Adds a message, or drops it if there is no task any more: its caller is refused then.
    fn add(&self, message: PullMessage) {
        if let Some(messages) = &mut *self.messages() {
            messages.push(message);
        }
        self.wake();
    }

    /// Wakes the task.
    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    /// Waits until nothing is to be done at this time of the clock, which stands still. The task that
    /// does it must not have ended.
    pub(crate) async fn settled(&self) -> Result<SettledPulls> {
        if !self.is_running.load(Ordering::Acquire) {
            return Ok(SettledPulls::default());
        }
        let (sender, receiver) = oneshot::channel();
        self.add(PullMessage::Settle(sender));
        match tokio::time::timeout(REPLY_TIMEOUT, receiver).await {
            Ok(Ok(settled)) => Ok(settled),
            Ok(Err(_)) => Err(Error::closed("the bus stops, or its runtime has ended")),
            Err(_) => Err(Error::new(
                ErrorKind::Unavailable,
                "the runtime of the bus does not run its tasks",
            )),
        }
    }

    /// Takes all messages.
    fn take(&self) -> Vec<PullMessage> {
        let mut messages = self.messages();
        messages.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes no more messages and drops those that wait.
    fn close(&self) {
        let left = self.messages().take();
        drop(left); // without the lock: leased events that are dropped are handed back by a message
    }

    fn messages(&self) -> parking_lot::MutexGuard<'_, Option<Vec<PullMessage>>> {
        // Poison is harmless: every change under the lock is one call.
        self.messages.lock()
    }

    /// Stops: callers are refused, and what is leased for them is handed back.
    pub(crate) async fn stop(&self, timeout: Duration) {
        if self.is_running.load(Ordering::Acquire) {
            self.add(PullMessage::Input(PullInput::Stop));
            // What is not handed back in time comes back at its deadline.
            let _ = tokio::time::timeout(timeout, self.stopped.cancelled()).await;
        }
        self.abandon();
    }

    /// Ends at once and waits for nothing; callers are refused.
    pub(crate) fn abandon(&self) {
        self.abandoned.cancel();
        self.close();
    }
}

/// Takes what a caller was sent; nothing: the task is gone.
fn taken(
    reply: Result<Result<HandOff>, oneshot::error::RecvError>,
) -> Result<Vec<PulledEvent<Arc<Envelope>>>> {
    reply
        .unwrap_or_else(|_gone| Err(closed()))
        .and_then(HandOff::take)
}

fn closed() -> Error {
    Error::new(
        ErrorKind::Closed,
        "the bus stops, so nothing is leased any more",
    )
}

/// A caller that waits; dropped before it has its reply, it is gone.
struct Caller<'a> {
    pulls: &'a Pulls,
    requester: Option<RequesterId>,
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        if let Some(requester) = self.requester {
            let gone = PullInput::Cancelled(requester);
            self.pulls.add(PullMessage::Input(gone));
        }
    }
}

impl Watcher for Pulls {
    fn earlier(&self, bucket: &BucketKey) {
        let (is_pulled, is_known) = self.queues.knows(bucket);
        if is_pulled && !is_known {
            self.found(std::slice::from_ref(bucket));
        }
        if is_pulled {
            self.add(PullMessage::Input(PullInput::Woken(bucket.clone())));
        }
    }

    /// Events are ready for which a handler's node has no capacity.
    fn called(&self, bucket: &BucketKey) {
        self.earlier(bucket);
    }
}
