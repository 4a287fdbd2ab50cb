//! Several calls to the store at once, in a bounded number.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::error::{ErrorKind, Result};
use crate::store::in_time;

/// How many calls of one question are in flight at once.
const AT_ONCE: usize = 32;
/// How many there may be with those that are slow, and from when on a call is.
const SLOW_AT_ONCE: usize = 1_024;
const SLOW: Duration = Duration::from_millis(100);
/// How long a call of an operator's question may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Makes these calls, at most 32 at a time; yields their results in the order of the calls.
pub(super) fn in_order<'a, T: Send + 'a>(
    calls: impl Iterator<Item = impl Future<Output = T> + Send + 'a> + Send + 'a,
) -> impl Stream<Item = T> + Send {
    stream::iter(erased(calls)).buffered(AT_ONCE)
}

/// As [`in_order`], but a call that takes longer than 100 ms makes room for another: one server of
/// several may not respond, and the calls to the others are not to wait for it.
pub(super) fn in_order_past_slow<'a, T: Send + 'a>(
    calls: impl Iterator<Item = impl Future<Output = T> + Send + 'a> + Send + 'a,
) -> impl Stream<Item = T> + Send {
    stream::iter(erased(past_slow(calls))).buffered(SLOW_AT_ONCE)
}

/// As [`as_they_come`], past those that are slow, as [`in_order_past_slow`] does.
pub(super) fn as_they_come_past_slow<'a, T: Send + 'a>(
    calls: impl Iterator<Item = impl Future<Output = T> + Send + 'a> + Send + 'a,
) -> impl Stream<Item = T> + Send {
    stream::iter(erased(past_slow(calls))).buffer_unordered(SLOW_AT_ONCE)
}

fn past_slow<'a, T: Send + 'a>(
    calls: impl Iterator<Item = impl Future<Output = T> + Send + 'a> + Send + 'a,
) -> impl Iterator<Item = impl Future<Output = T> + Send + 'a> + Send + 'a {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    calls.map(move |call| {
        let room = Arc::clone(&room);
        async move {
            let mut call = pin!(call);
            let taken = room.acquire().await;
            let done = timeout(SLOW, &mut call).await;
            drop(taken);
            match done {
                Ok(done) => done,
                Err(_) => call.await,
            }
        }
    })
}

/// Makes these calls, at most 32 at a time; yields each result as it comes.
pub(super) fn as_they_come<'a, T: Send + 'a>(
    calls: impl Iterator<Item = impl Future<Output = T> + Send + 'a> + Send + 'a,
) -> impl Stream<Item = T> + Send {
    stream::iter(erased(calls)).buffer_unordered(AT_ONCE)
}

/// Builds each call when its turn comes, as there may be a million. Without the types of the caller's
/// closures, of which the compiler could not tell that they are `Send`.
fn erased<'a, T: 'a>(
    calls: impl Iterator<Item = impl Future<Output = T> + Send + 'a> + Send + 'a,
) -> Box<dyn Iterator<Item = BoxFuture<'a, T>> + Send + 'a> {
    Box::new(calls.map(FutureExt::boxed))
}

/// Waits for a call of an operator's question for two seconds.
///
/// # Errors
///
/// [`ErrorKind::TimedOut`] after that, or the call's own.
pub(super) async fn operator_call<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    in_time(PATIENCE, ErrorKind::TimedOut, call).await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A million buckets are a million calls, of which some are made at a time.
    #[tokio::test]
    async fn a_call_is_built_when_its_turn_comes() {
        let built = AtomicUsize::new(0);
        let calls = || {
            let call = |number| {
                built.fetch_add(1, Ordering::Relaxed);
                async move { number }
            };
            (0..1_000_000).map(call)
        };
        for is_ordered in [true, false] {
            built.store(0, Ordering::Relaxed);
            let first = if is_ordered {
                in_order(calls()).next().await
            } else {
                as_they_come(calls()).next().await
            };
            assert!(first.is_some());
            assert!(built.load(Ordering::Relaxed) <= AT_ONCE + 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_hang_keep_the_others_for_a_moment_and_not_for_their_whole_time() {
        for is_ordered in [true, false] {
            let from = tokio::time::Instant::now();
            let call = async |number: usize| {
                if number < 200 {
                    tokio::time::sleep(PATIENCE).await; // on a server that hangs
                }
                (number, from.elapsed())
            };
            let calls = (0..400).map(call);
            let done: Vec<_> = if is_ordered {
                in_order_past_slow(calls).collect().await
            } else {
                as_they_come_past_slow(calls).collect().await
            };
            let well = done.iter().filter(|(number, _)| *number >= 200);
            let last = well.map(|(_, took)| *took).max();
            let waited = SLOW * u32::try_from(200_usize.div_ceil(AT_ONCE)).unwrap();
            assert!(last <= Some(waited), "{last:?}, ordered: {is_ordered}");
            assert!(from.elapsed() < PATIENCE + waited * 2);
        }
    }
}
