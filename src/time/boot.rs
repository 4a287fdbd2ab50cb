//! The machine's monotonic clock that goes on while the machine is suspended.
//!
//! `std::time::Instant` stands still then on Linux and on Apple's systems. On Windows it goes on;
//! elsewhere it is all that can be read without `unsafe`.

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
use nix::time::ClockId;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CONTINUOUS: ClockId = ClockId::CLOCK_BOOTTIME;
/// `CLOCK_MONOTONIC` goes on as well, but is made of the wall clock there, and steps back at times.
#[cfg(target_vendor = "apple")]
const CONTINUOUS: ClockId = ClockId::from_raw(nix::libc::CLOCK_MONOTONIC_RAW);

/// Returns the nanoseconds since an arbitrary start, the same for all of a process.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn boot_ns() -> u64 {
    // The clock has been there for as long as Rust's programs run.
    CONTINUOUS
        .now()
        .map_or(0, |now| nanos(now.tv_sec(), now.tv_nsec()))
}

/// Returns the nanoseconds since an arbitrary start, the same for all of a process.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
#[allow(clippy::disallowed_methods)] // the machine's clock is read here and in `time.rs` only
pub(super) fn boot_ns() -> u64 {
    use std::sync::LazyLock;
    use std::time::Instant;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn nanos(secs: impl TryInto<u64>, nanos: impl TryInto<u64>) -> u64 {
    let (secs, nanos) = (secs.try_into().unwrap_or(0), nanos.try_into().unwrap_or(0));
    secs.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::time::{Clock, SystemClock};

    /// The seconds since the machine was booted; those in which it was suspended count.
    fn uptime() -> f64 {
        let shown = std::fs::read_to_string("/proc/uptime").expect("the system shows it");
        let first = shown.split(' ').next().expect("two numbers");
        first.parse().expect("a number")
    }

    /// Only where it was suspended since, or in a time namespace (`unshare --time --boottime`), is
    /// another clock told from it.
    #[test]
    fn monotonic_time_counts_what_the_machine_was_suspended() {
        let before = uptime();
        let read = boot_ns() as f64 / 1e9;
        let after = uptime();
        // Hundredths are shown.
        assert!(
            (before - 0.01..after + 0.02).contains(&read),
            "{before} {read} {after}"
        );
    }

    #[test]
    fn a_clock_of_the_machine_begins_near_zero_and_goes_on() {
        let clock = SystemClock::new();
        let before = uptime();
        let begun = clock.mono();
        while uptime() - before < 0.05 {
            std::thread::yield_now();
        }
        let passed = clock.mono().since(begun).as_secs_f64();
        assert!((0.03..5.0).contains(&passed), "{passed}");
    }
}
