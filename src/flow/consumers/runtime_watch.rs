//! A task beside the program's runtime that notices when handlers block all of its threads.
//!
//! The calls to a shared store go on meanwhile, and so the leases are kept: a running handler is
//! not started elsewhere. What only waits for a worker is handed back, and nothing more is fetched.
//! A handler that blocks beyond its timeout is over, whatever it returns; so when the longest
//! timeout has passed, the node stands still as if its process had been stopped, and loses its
//! leases. It also ends with the runtime: what its handlers held is nobody's any more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, Receiver, error::RecvError};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::core::step::Input;
use crate::flow::consumers::set::Consumers;
use crate::flow::node::inbox::Inbox;
use crate::flow::pool::polled::PollSnapshot;
use crate::panics;

/// How often the runtime is asked to run a task.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long it may take, twice, before it counts as blocked: a busy machine takes long, too.
const BLOCKED_AFTER: Duration = Duration::from_millis(500);
/// How often what is on its way to a blocked runtime is handed back.
const AGAIN: Duration = Duration::from_secs(1);
/// How much longer than their timeout handlers may block: they were started a moment before.
const GRACE: Duration = Duration::from_secs(1);
/// The least time between two log lines.
const LINES_APART: Duration = Duration::from_secs(60);

/// Watches the runtime of a flow.
pub(crate) struct RuntimeWatch {
    pub(crate) program: Handle,
    pub(crate) consumers: Arc<Consumers>,
    pub(crate) inbox: Arc<Inbox>,
    /// Whether the node stands still.
    pub(crate) halted: Arc<AtomicBool>,
    /// Cancelled to end the node with the runtime.
    pub(crate) abandoned: CancellationToken,
    /// Cancelled when the node has stopped.
    pub(crate) stopped: CancellationToken,
}

impl RuntimeWatch {
    /// Watches until the node has ended.
    pub(crate) async fn run(self) {
        let (stopped, abandoned) = (self.stopped.clone(), self.abandoned.clone());
        tokio::select! {
            () = self.follow() => {}
            () = stopped.cancelled() => {}
            () = abandoned.cancelled() => {}
        }
    }

    async fn follow(self) {
        let mut lines = Lines::default();
        loop {
            let (sender, mut receiver) = oneshot::channel();
            self.program.spawn(async move { sender.send(()) });
            let mut result = timeout(BLOCKED_AFTER, &mut receiver).await;
            if result.is_err() {
                // Twice, as a process that was stopped for a while finds all times over.
                let earlier = PollSnapshot::take();
                result = timeout(BLOCKED_AFTER, &mut receiver).await;
                if result.is_err() {
                    lines.blocked(&self.consumers, &earlier);
                    result = Ok(self.wait(receiver).await);
                }
            }
            match result {
                Ok(Err(_gone)) => return self.has_ended(),
                _ => sleep(ASK_EVERY).await,
            }
        }
    }

    /// Waits until a blocked runtime runs tasks again, or has ended.
    async fn wait(&self, mut receiver: Receiver<()>) -> Result<(), RecvError> {
        let gives_up_at = Instant::now() + limit(&self.consumers);
        let result = loop {
            self.consumers.follow_blocked(true);
            let next = Instant::now() + AGAIN;
            if let Ok(result) = timeout_at(next.min(gives_up_at), &mut receiver).await {
                break result;
            }
            if Instant::now() >= gives_up_at {
                panics::reported(|| {
                    tracing::error!(
                        "runtime blocked for longer than any handler may run; its leases are left \
                         to other nodes"
                    );
                });
                self.halted.store(true, Ordering::Release);
                let result = receiver.await;
                self.halted.store(false, Ordering::Release);
                self.inbox.wake();
                break result;
            }
        };
        self.consumers.follow_blocked(false);
        result
    }

    /// The runtime has ended, and all handlers with it.
    fn has_ended(&self) {
        self.abandoned.cancel();
        self.inbox.add(Input::Stop); // wakes the mover, so that it sees that it is abandoned
    }
}

/// How long a blocked runtime keeps its leases.
fn limit(consumers: &Consumers) -> Duration {
    consumers.longest_timeout() + GRACE
}

/// The log lines, one a minute.
#[derive(Default)]
struct Lines {
    last: Option<Instant>,
}

impl Lines {
    /// Logs which handlers are in the same poll as `earlier`.
    fn blocked(&mut self, consumers: &Consumers, earlier: &PollSnapshot) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now < last + LINES_APART) {
            return;
        }
        self.last = Some(now);
        let limit = limit(consumers);
        let pools: BTreeSet<u32> = PollSnapshot::take().same_as(earlier).collect();
        let mut blocking = pools
            .into_iter()
            .filter_map(|pool| consumers.of_pool(pool))
            .peekable();
        if blocking.peek().is_none() {
            panics::reported(|| {
                tracing::warn!(
                    ?limit,
                    "runtime blocked, and not by a handler; the leases of its events are lost \
                     after the limit, and they run twice"
                );
            });
        }
        for (queue, handler) in blocking {
            panics::reported(|| {
                tracing::warn!(
                    %queue, handler, ?limit,
                    "handler blocks its runtime, and no other runs; the leases of its events are \
                     lost after the limit, and they run twice; declare handlers that block as \
                     `blocking`"
                );
            });
        }
    }
}
