//! Operations that may take several calls: each call does as much as its byte limit allows.
//!
//! Each event is changed on its own, so the split is not observable. A call that fails after
//! another has succeeded leaves the whole unknown: repeating the operation does the rest.

use crate::error::{Error, ErrorKind, Result};
use crate::store::redis::link::managed::ManagedConnection;
use crate::store::redis::op::shared::Shared;
use crate::store::redis::script::call::Call;
use crate::store::redis::script::reader::ReplyReader;

/// Makes one call; its failure leaves the whole unknown once an earlier part has succeeded.
pub(super) async fn call_part(
    shared: &Shared,
    link: &ManagedConnection,
    call: &Call,
    is_begun: bool,
) -> Result<ReplyReader> {
    shared.call(link, call).await.map_err(|error| {
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
