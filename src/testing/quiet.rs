//! Waiting until a runtime is idle, while its time stands still.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use tokio::runtime::Handle;

/// How often the watching thread polls.
const LOOK: Duration = Duration::from_micros(20);

/// Waits until every task of this runtime waits for a timer.
///
/// Paused time runs ahead as soon as the runtime is idle, but not while a blocking task runs. Such
/// a task holds it here, and ends when the runtime goes to sleep, which it does only when no task
/// can run, or when this future is dropped.
pub(super) async fn quiet() {
    let metrics = Handle::current().metrics();
    let before = metrics.worker_park_count(0);
    // Dropped with this future: a runtime waits for its blocking tasks when it ends.
    let (waits, ended) = channel::<()>();
    let watch = move || {
        while metrics.worker_park_count(0) == before {
            // The watched thread works, for an unknown time.
            if ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    };
    // It cannot panic and is never aborted; a runtime that ends does not poll this any more.
    let _ = tokio::task::spawn_blocking(watch).await;
    drop(waits);
}
