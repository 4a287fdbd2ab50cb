//! Reconnect backoff.

use std::time::Duration;

/// The first and the longest delay.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(2);

/// Returns the delay after `failures` failures in a row: doubling, with jitter, so that many nodes
/// do not reconnect at once.
pub(in crate::store::redis) fn after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let longest = (FIRST * 2_u32.pow(doublings)).min(LONGEST);
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}
