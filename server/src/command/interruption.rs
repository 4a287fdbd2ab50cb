//! The end of a command that changes much: Ctrl-C, or the signal by which a process is told to end.

use super::error::{CommandError, Result};
use crate::signals::Signals;

/// Goes through a sweep until the command is interrupted, so that it can say what was done.
pub(super) async fn until_interrupted<T>(sweep: impl Future<Output = Result<T>>) -> Result<T> {
    let signals = Signals::listen_for_end();
    let mut signals = signals
        .map_err(|error| CommandError::failed(format!("signals cannot be received: {error}")))?;
    tokio::select! {
        ended = sweep => ended,
        _ = signals.next() => Err(CommandError::failed("it was interrupted")),
    }
}
