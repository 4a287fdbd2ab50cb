//! How long to wait before something is tried again.

use std::time::Duration;

/// The first wait, and the longest.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(2);

/// How long to wait after so many failures in a row: doubling, with jitter, so that many nodes do
/// not come back in step.
pub(super) fn after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let longest = (FIRST * 2_u32.pow(doublings)).min(LONGEST);
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}
