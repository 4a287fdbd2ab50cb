//! Several calls to the store at once, in a bounded number.

use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt, stream};

use crate::error::{Error, ErrorKind, Result};

/// How many calls of one question are in flight at once.
const AT_ONCE: usize = 32;
/// How long a call of an operator's question may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Makes these calls, at most 32 at a time; yields their results in the order of the calls.
pub(super) fn in_order<'a, T: Send + 'a>(
    calls: impl Iterator<Item = impl Future<Output = T> + Send + 'a>,
) -> impl Stream<Item = T> + Send {
    let calls: Vec<_> = calls.map(FutureExt::boxed).collect();
    stream::iter(calls).buffered(AT_ONCE)
}

/// Makes these calls, at most 32 at a time; yields each result as it comes.
pub(super) fn as_they_come<'a, T: Send + 'a>(
    calls: impl Iterator<Item = impl Future<Output = T> + Send + 'a>,
) -> impl Stream<Item = T> + Send {
    let calls: Vec<_> = calls.map(FutureExt::boxed).collect();
    stream::iter(calls).buffer_unordered(AT_ONCE)
}

/// Waits for a call for two seconds.
///
/// # Errors
///
/// [`ErrorKind::TimedOut`] after that, or the call's own.
pub(super) async fn in_time<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_elapsed| Error::new(ErrorKind::TimedOut, "no response within 2s");
    tokio::time::timeout(PATIENCE, call).await.map_err(late)?
}
