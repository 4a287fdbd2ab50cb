//! The parts of a flow that its end concerns, and their end: by a drop, or with the runtime.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::core::step::Input;
use crate::flow::consumers::set::Consumers;
use crate::flow::handlers::replies::Replies;
use crate::flow::node::inbox::Inbox;
use crate::flow::pull::Pulls;
use crate::panics;

/// The parts of a flow that its end concerns.
#[derive(Clone)]
pub(crate) struct FlowParts {
    pub(crate) consumers: Arc<Consumers>,
    pub(crate) inbox: Arc<Inbox>,
    /// The callers that pull.
    pub(crate) pulls: Arc<Pulls>,
    /// The callers that wait for a handler's reply.
    pub(crate) replies: Arc<Replies>,
    /// Cancelled when a stop begins.
    pub(crate) stopping: CancellationToken,
    /// Cancelled to stop handlers.
    pub(crate) stop: CancellationToken,
    /// Cancelled to end the mover, and the tasks that set gauges, at once.
    pub(crate) abandoned: CancellationToken,
}

impl FlowParts {
    /// Ends everything at once and waits for nothing; the leases expire.
    pub(crate) fn end(&self) {
        self.stopping.cancel();
        self.stop.cancel();
        self.abandoned.cancel();
        self.pulls.abandon();
        self.inbox.add(Input::Stop); // wakes the mover, so that it sees that it is abandoned
        for (_, served) in self.consumers.iter() {
            served.consumer.close(); // or cut jobs make room for waiting ones
            served.consumer.cut();
        }
        self.replies.give_up();
    }

    /// Ends the flow when the runtime does, in which this is a task: nothing runs any more, so
    /// nothing may be leased, and whoever waits is refused.
    ///
    /// A runtime that nobody drives may end before the task was polled: its drop is all that counts.
    pub(crate) fn when_the_runtime_ends(self) -> impl Future<Output = ()> + Send + 'static {
        struct RuntimeGuard(Option<FlowParts>);
        impl Drop for RuntimeGuard {
            fn drop(&mut self) {
                if let Some(end) = self.0.take().filter(|end| !end.abandoned.is_cancelled()) {
                    panics::reported(|| {
                        tracing::warn!(
                            "runtime of the bus ended before its shutdown; the bus stops"
                        );
                    });
                    end.end();
                }
            }
        }
        let abandoned = self.abandoned.clone();
        let guard = RuntimeGuard(Some(self));
        async move {
            let mut guard = guard;
            abandoned.cancelled().await;
            guard.0 = None;
        }
    }
}
