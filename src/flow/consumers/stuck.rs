//! A task that tracks blocking handlers which run on after their timeout.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::flow::consumers::set::Consumers;

/// How often a queue without a free worker is checked, to release events that were on their way to
/// it.
const AGAIN: Duration = Duration::from_secs(1);

/// Tracks the consumers until it is stopped; sleeps until `stuck`, or for a moment while a queue has
/// no worker left.
pub(crate) async fn follow(consumers: Arc<Consumers>, stuck: Arc<Notify>, stop: CancellationToken) {
    let mut is_stuck = false;
    loop {
        let stuck = stuck.notified();
        let waited = if is_stuck {
            stop.run_until_cancelled(tokio::time::timeout(AGAIN, stuck))
                .await
                .map(drop)
        } else {
            stop.run_until_cancelled(stuck).await
        };
        if waited.is_none() {
            return;
        }
        is_stuck = consumers.follow_stuck();
    }
}
