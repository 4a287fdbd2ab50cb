//! The stop of a flow.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use crate::core::step::Input;
use crate::flow::start::Flow;

/// How long handlers have after their stop signal before they are cut.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// The least time for outcomes to reach the store, however short the grace.
const SETTLE_MIN: Duration = Duration::from_secs(2);

impl Flow {
    /// Stops fetching, lets handlers finish within `grace`, releases what never started and settles
    /// everything that ended. Returns whether all of that was done in time.
    ///
    /// What is left of the grace when the handlers have ended, and two seconds at least, is for the
    /// store: it does not get the grace again after a handler that blocks its thread.
    pub(crate) async fn stop(mut self, grace: Duration) -> bool {
        let began = Instant::now();
        // Its runtime has ended, so nothing was settled since.
        let was_cut = self.parts.abandoned.is_cancelled();
        self.parts.stopping.cancel();
        self.parts.inbox.add(Input::Stop);
        let stops: Vec<_> = self
            .parts
            .consumers
            .iter()
            .map(|(_, served)| Arc::clone(&served.consumer).stop())
            .collect();
        let finished = join_all(stops);
        tokio::join!(
            self.parts.pulls.stop(SETTLE_MIN),
            self.end_handlers(grace, finished)
        );
        let left = grace.saturating_sub(began.elapsed()).max(SETTLE_MIN);
        let settled = timeout(left, self.stopped.cancelled()).await.is_ok() && !was_cut;
        // A node that has not settled everything may hold leases, and must not leave.
        if settled && let Some(membership) = self.membership.take() {
            membership.leave().await;
        }
        self.parts.abandoned.cancel();
        // No gauges of this node after its stop, unless a handler blocks the runtime.
        let reporters = std::mem::take(&mut self.reporters);
        let _ = timeout(SETTLE_MIN, join_all(reporters)).await;
        settled
    }

    /// Waits until the handlers have ended, and cuts them after the grace.
    async fn end_handlers(&self, grace: Duration, finished: impl Future<Output = Vec<()>>) {
        let mut finished = std::pin::pin!(finished);
        if timeout(grace, &mut finished).await.is_ok() {
            return;
        }
        self.parts.stop.cancel();
        if timeout(LAST_WORDS, &mut finished).await.is_ok() {
            return;
        }
        for (_, served) in self.parts.consumers.iter() {
            served.consumer.cut();
        }
        // Suspended handlers are gone now; those that block their thread are not awaited.
        let _ = timeout(LAST_WORDS, finished).await;
    }
}

/// A dropped flow ends at once and waits for nothing.
impl Drop for Flow {
    fn drop(&mut self) {
        self.parts.end();
    }
}
