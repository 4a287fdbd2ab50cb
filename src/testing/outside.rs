//! Paused time that stands still while a test waits for the outside world.

use std::sync::mpsc::channel;

/// Waits for `future` while paused time stands still.
///
/// Paused time jumps to the next timer when no task can run, also while a test waits for the answer
/// of a database: its pool would time out at once. A handler needs none of this: while it waits, a
/// [`TestBus`](crate::testing::TestBus) holds the time by itself.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use duly::testing::outside;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// // Work that no timer waits for, as of a server that is asked for something.
/// let answer = async { std::thread::spawn(|| 7).join() };
/// let answered = outside(tokio::time::timeout(Duration::from_secs(1), answer)).await;
/// assert!(matches!(answered, Ok(Ok(7))));
/// # }
/// ```
///
/// # Panics
///
/// Outside of a Tokio runtime.
pub async fn outside<F: Future>(future: F) -> F::Output {
    let (waits, ended) = channel::<()>();
    // Time stands still while a blocking task runs; it ends when this future does, or is dropped.
    drop(tokio::task::spawn_blocking(move || ended.recv()));
    let result = future.await;
    drop(waits);
    result
}
