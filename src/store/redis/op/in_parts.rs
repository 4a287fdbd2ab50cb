//! Operations that may take several calls: each call does as much as its byte limit allows.
//!
//! Each event is changed on its own, so the split is not observable. A call that fails after
//! another has succeeded leaves the whole unknown: repeating the operation does the rest.

use crate::error::{Error, ErrorKind, Result};

/// Awaits one call; its failure leaves the whole unknown once an earlier part has succeeded.
pub(in crate::store::redis) async fn part<T>(
    call: impl Future<Output = Result<T>>,
    is_begun: bool,
) -> Result<T> {
    call.await.map_err(|error| {
        if is_begun {
            Error::new(
                ErrorKind::Unknown,
                "the operation was done in part; repeating it does the rest",
            )
            .because(error)
        } else {
            error
        }
    })
}
