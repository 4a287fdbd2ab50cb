//! Membership: the polls of members and settings, the watch of the clocks, and the depth sampler.

pub(in crate::flow) mod clock_watch;
pub(in crate::flow) mod depth_sampler;
pub(in crate::flow) mod host;
pub(in crate::flow) mod poll;

use std::time::Duration;

use crate::error::{ErrorKind, Result};
use crate::store::in_time;

/// How long membership waits for a store.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits for a call of the store, but not for long: what it would return is soon out of date.
async fn poll_call<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    in_time(PATIENCE, ErrorKind::Unknown, call).await
}
