//! Removing from the journal what is older, or more, than is to be kept.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::journal::contract::Journal;
use crate::journal::recorder::answered;
use crate::panics;
use crate::record::Keep;
use crate::record::retention::warn_held_back;
use crate::store::Store;
use crate::time::Timestamp;

/// How often it looks whether there is something to remove.
const EVERY: Duration = Duration::from_secs(60);
/// The shortest and the longest rest between two steps while there is more.
const REST: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Prunes until it is aborted. Nodes that share a journal each do so, at moments of their own: a
/// step finds what is there, so two of them do no harm.
///
/// It rests as long as each step took, so that it has at most half of the journal's time, and keeps
/// pace with any number of records that come.
pub(super) async fn run(
    store: Arc<dyn Store>,
    journal: Arc<dyn Journal>,
    keep: Keep,
    patience: Duration,
) {
    sleep(EVERY.mul_f64(fastrand::f64())).await;
    let (mut has_failed, mut is_held_back) = (false, false);
    loop {
        let now = Timestamp::from_millis(store.now_us() / 1_000);
        let began = Instant::now();
        let pruned = answered(patience, async { journal.prune(keep, now).await }).await;
        let took = began.elapsed();
        match pruned {
            Ok(pruned) => {
                has_failed = false;
                if pruned.records > 0 {
                    let records = pruned.records;
                    panics::reported(|| tracing::debug!(records, "pruned old records"));
                }
                if pruned.is_held_back && !is_held_back {
                    warn_held_back(keep, now);
                }
                is_held_back = pruned.is_held_back;
                if pruned.more {
                    sleep(took.clamp(REST.0, REST.1)).await;
                } else {
                    sleep(EVERY.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    panics::reported(|| tracing::warn!(%error, "failed to prune the journal"));
                }
                sleep(EVERY).await;
            }
        }
    }
}
