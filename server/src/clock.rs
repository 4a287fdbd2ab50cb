//! The clock of the server: wall-clock time for ids, expiry and headers.

use std::sync::LazyLock;

use duly::time::{Clock, SystemClock, Timestamp};

static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);

/// Returns the time now.
pub(crate) fn now() -> Timestamp {
    CLOCK.now()
}
