//! A task beside the program's runtime that notices when handlers block all of its threads.
//!
//! The calls to a shared store go on meanwhile, and so the leases are kept: a running handler is
//! not started elsewhere. What only waits for a worker is handed back, and nothing more is fetched.
//! A handler that blocks beyond its timeout is over, whatever it returns; so when the timeout of a
//! queue has passed, the node says nothing more of that queue to the store, as if its process had been
//! stopped, and loses its leases. Queues with a runtime of their own go on. The node ends with the
//! runtime: what its handlers held is nobody's any more.

use std::collections::BTreeSet;
use std::sync::Arc;
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
/// The least time between two log lines.
const LINES_APART: Duration = Duration::from_secs(60);

/// Watches the runtime of a flow.
pub(crate) struct RuntimeWatch {
    pub(crate) program: Handle,
    pub(crate) consumers: Arc<Consumers>,
    pub(crate) inbox: Arc<Inbox>,
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
        let since = Instant::now();
        let result = loop {
            let halts_at = self.consumers.follow_blocked(Some(since));
            let next = Instant::now() + AGAIN;
            let next = halts_at.map_or(next, |at| next.min(at));
            if let Ok(result) = timeout_at(next, &mut receiver).await {
                break result;
            }
        };
        self.consumers.follow_blocked(None);
        result
    }

    /// The runtime has ended, and all handlers with it.
    fn has_ended(&self) {
        self.abandoned.cancel();
        self.inbox.add(Input::Stop); // wakes the mover, so that it sees that it is abandoned
    }
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
        let pools: BTreeSet<u32> = PollSnapshot::take().same_as(earlier).collect();
        let mut blocking = pools
            .into_iter()
            .filter_map(|pool| consumers.of_pool(pool))
            .peekable();
        if blocking.peek().is_none() {
            let limit = consumers.kept_while_blocked();
            panics::reported(|| {
                tracing::warn!(
                    ?limit,
                    "runtime blocked, and not by a handler; the leases of a queue's events are lost \
                     after its timeout, the first ones after the limit, and they run twice"
                );
            });
        }
        for (queue, served) in blocking {
            let (handler, limit) = (
                served.handler,
                served.kept_while_blocked().unwrap_or_default(),
            );
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
