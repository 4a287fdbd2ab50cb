//! Reads: calls without an effect, which are repeated once when their reply is lost.

use crate::error::{Error, ErrorKind, Result};

/// Runs a read, and once more if its reply was lost. What became of a read is never unknown: when
/// both replies are lost it is `Unavailable`.
pub(in crate::store::redis) async fn read<T, F>(run: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    match run().await {
        Err(error) if error.kind() == ErrorKind::Unknown => {}
        read => return read,
    }
    run().await.map_err(|error| match error.kind() {
        ErrorKind::Unknown => Error::new(ErrorKind::Unavailable, error.to_string()).because(error),
        _ => error,
    })
}
