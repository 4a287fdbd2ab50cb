//! The clock of a store that lives in its process: memory and embedded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::core::clock::{JUMP_US, SteadyClock, SteadyReading};
use crate::panics;
use crate::store::contract::Store;
#[cfg(feature = "embedded")]
use crate::time::Timestamp;
use crate::time::{Clock, Mono};

/// The least time between two log lines about a wall clock that jumps.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// Returns by how much a store's time is ahead of the wall clock of this machine.
pub(crate) fn clock_ahead_us(store: &dyn Store, clock: &dyn Clock) -> i64 {
    let (store_us, wall_us) = (store.now_us(), clock.wall_us());
    let apart_us = i64::try_from(store_us.abs_diff(wall_us)).unwrap_or(i64::MAX);
    if store_us < wall_us {
        -apart_us
    } else {
        apart_us
    }
}

/// Returns whether clocks that are so far apart are reported: by more than a second.
pub(crate) fn differs(ahead_us: i64) -> bool {
    ahead_us.unsigned_abs() > JUMP_US.unsigned_abs()
}

/// The time of a store, by the rule of [`SteadyClock`].
#[derive(Debug)]
pub(crate) struct StoreTime {
    clock: Arc<dyn Clock>,
    steady: Mutex<SteadyClock>,
    /// The offset of the last reading, and whether the clocks agreed: the common path writes
    /// nothing that other threads read.
    offset_us: AtomicI64,
    is_steady: AtomicBool,
    /// Whether the time was set forward, and watchers were not notified yet.
    has_jumped: AtomicBool,
    /// Whether a jump was logged whose end was not, and when the last line was.
    is_logged: AtomicBool,
    logged_ns: AtomicU64,
}

impl StoreTime {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let time = Self {
            clock,
            steady: Mutex::default(),
            offset_us: AtomicI64::new(0),
            is_steady: AtomicBool::new(false),
            has_jumped: AtomicBool::new(false),
            is_logged: AtomicBool::new(false),
            logged_ns: AtomicU64::new(0),
        };
        time.now_us();
        time
    }

    /// Returns the store's time in microseconds since the epoch.
    pub(crate) fn now_us(&self) -> u64 {
        // In this order: a thread that is held up in between finds itself late and never early.
        let (wall_us, mono) = (self.clock.wall_us(), self.clock.mono());
        if self.is_steady.load(Ordering::Relaxed) {
            let offset_us = self.offset_us.load(Ordering::Relaxed);
            let now_us = (mono.as_nanos() / 1_000).saturating_add_signed(offset_us);
            let ahead_us = wall_us.cast_signed().wrapping_sub(now_us.cast_signed());
            let reading = SteadyReading {
                now_us,
                offset_us,
                ahead_us,
                jumped_us: 0,
            };
            if reading.is_steady() {
                return now_us;
            }
        }
        self.read(mono, wall_us)
    }

    /// The monotonic time of the same clock.
    #[cfg(feature = "embedded")]
    pub(crate) fn mono(&self) -> Mono {
        self.clock.mono()
    }

    /// The store's time in whole milliseconds, rounded down.
    #[cfg(feature = "embedded")]
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_us() / 1_000)
    }

    /// Returns whether the time was set forward since the last call: what was scheduled by it is
    /// due earlier than its node knows.
    pub(crate) fn take_jump(&self) -> bool {
        self.now_us();
        self.has_jumped.load(Ordering::Relaxed) && self.has_jumped.swap(false, Ordering::Relaxed)
    }

    #[cold]
    fn read(&self, mono: Mono, wall_us: u64) -> u64 {
        let reading = {
            let mut steady = self.steady.lock();
            let reading = steady.read(mono, wall_us);
            self.offset_us.store(reading.offset_us, Ordering::Relaxed);
            self.is_steady.store(reading.is_steady(), Ordering::Relaxed);
            reading
        };
        if reading.jumped_us != 0 {
            self.has_jumped.store(true, Ordering::Relaxed);
        }
        self.log(mono, reading);
        reading.now_us
    }

    fn log(&self, mono: Mono, reading: SteadyReading) {
        #[allow(clippy::cast_precision_loss)] // seconds to read
        let seconds = |us: i64| us as f64 / 1e6;
        let is_wrong = differs(reading.ahead_us);
        if reading.jumped_us != 0 {
            panics::reported(|| {
                tracing::warn!(
                    ahead_s = seconds(reading.jumped_us),
                    "the wall clock stayed ahead; the store's time was set forward"
                );
            });
        } else if is_wrong {
            let last = Mono::from_nanos(self.logged_ns.load(Ordering::Relaxed));
            let is_new = !self.is_logged.load(Ordering::Relaxed);
            if is_new && (last == Mono::default() || mono.since(last) >= LOGGED_EVERY) {
                self.logged_ns
                    .store(mono.as_nanos().max(1), Ordering::Relaxed);
                self.is_logged.store(true, Ordering::Relaxed);
                panics::reported(|| {
                    tracing::warn!(
                        ahead_s = seconds(reading.ahead_us),
                        "the wall clock jumped; the store's time goes on by the monotonic clock"
                    );
                });
            }
            return;
        }
        if self.is_logged.swap(false, Ordering::Relaxed) {
            panics::reported(|| tracing::info!("the wall clock and the store's time agree again"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ManualClock;

    /// A clock of a machine so busy that a second passes after its first reading.
    #[derive(Debug)]
    struct HeldUp(ManualClock, AtomicBool);

    impl HeldUp {
        fn after<T>(&self, read: T) -> T {
            if !self.1.swap(true, Ordering::Relaxed) {
                self.0.advance(Duration::from_secs(1));
            }
            read
        }
    }

    impl Clock for HeldUp {
        fn wall_us(&self) -> u64 {
            self.after(self.0.wall_us())
        }

        fn mono(&self) -> Mono {
            self.after(self.0.mono())
        }
    }

    #[test]
    fn a_store_that_is_held_up_while_it_reads_the_clocks_is_not_ahead_of_the_wall_clock() {
        let clock = Arc::new(HeldUp(ManualClock::new(), AtomicBool::new(false)));
        let time = StoreTime::new(Arc::clone(&clock) as _);
        for _ in 0..3 {
            let ahead_us = time.now_us().cast_signed() - clock.wall_us().cast_signed();
            assert!((-1_000_000..=0).contains(&ahead_us), "{ahead_us}");
            clock.0.advance(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_glitch_of_the_wall_clock_is_no_time_of_the_store() {
        let clock = Arc::new(ManualClock::new());
        let time = StoreTime::new(Arc::clone(&clock) as _);
        let start = clock.now();
        assert_eq!(time.now(), start);
        let second = Duration::from_secs(1);
        let day = Duration::from_secs(86_400);
        for wrong in [start + day, start - day] {
            let before = time.now();
            clock.set_wall(wrong);
            for _ in 0..3 {
                clock.advance(second);
                time.now_us();
            }
            assert_eq!(time.now(), before + 3 * second);
            clock.set_wall(before + 3 * second);
            clock.advance(second);
            assert_eq!((time.now(), time.take_jump()), (before + 4 * second, false));
        }
        clock.set_wall(start + day);
        assert!(!time.take_jump());
        clock.advance(10 * second);
        assert!(time.take_jump() && !time.take_jump());
        assert_eq!(time.now(), start + day + 10 * second);
    }
}
