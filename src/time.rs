//! Timestamps, monotonic time, and the clock that provides both.
//!
//! [`Timestamp`] is the store's time and the only one that is stored. [`Mono`] is a process's own
//! and only measures spans. They do not convert into each other: nodes with different wall clocks
//! agree on what is due, because only the store's clock decides.

mod boot;

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::panics;

/// The longest delay of a push: as many seconds as 32 bits count, 136 years.
pub const DELAY_MAX: Duration = Duration::from_secs(u32::MAX as u64);

/// A time of the store's clock, in milliseconds since the Unix epoch, UTC.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use duly::time::Timestamp;
///
/// let noon = Timestamp::from_millis(1_000);
// A fraction of a millisecond rounds up, so that nothing is early.
/// assert_eq!((noon + Duration::from_micros(1_500)).as_millis(), 1_002);
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The greatest timestamp.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a timestamp from milliseconds since the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Creates a timestamp from microseconds since the Unix epoch, rounded up.
    #[must_use]
    pub const fn from_micros_up(micros: u64) -> Self {
        Self(micros.div_ceil(1_000))
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0.saturating_mul(1_000)
    }

    /// Returns the span since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Rounds up to whole milliseconds; saturates at [`Timestamp::MAX`].
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, delay: Duration) -> Self {
        let millis = u64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }
}

/// Rounds the span up to whole milliseconds; saturates at the epoch.
impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        let millis = u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(millis))
    }
}

/// Rounds up to whole milliseconds; saturates at the epoch.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self::EPOCH + time.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        UNIX_EPOCH + Duration::from_millis(time.0)
    }
}

/// RFC 3339, for example `2026-11-20T13:05:07.250Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        // Days since 0000-03-01, so that a leap day ends its year (Howard Hinnant, "chrono-
        // Compatible Low-Level Date Algorithms").
        let z = days + 719_468;
        let (era, doe) = (z / 146_097, z % 146_097);
        let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = doy - (153 * mp + 2) / 5 + 1;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        let year = yoe + era * 400 + u64::from(month <= 2);
        let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{:03}Z",
            ms % 1_000
        )
    }
}

/// The requested due time of an event.
///
/// A delay counts from when the store accepts the event, by the store's clock; a fraction of a
/// millisecond rounds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Now: the event skips the delay set.
    Now,
    /// After a delay.
    After(Duration),
    /// At a time; one in the past means now.
    At(Timestamp),
}

impl When {
    /// Returns the due time of an event that the store accepts at `now_us`, in microseconds.
    pub(crate) fn due(self, now_us: u64) -> Timestamp {
        match self {
            Self::Now => Timestamp::from_millis(now_us / 1_000),
            Self::After(delay) => {
                let delay_us = u64::try_from(delay.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
                Timestamp::from_micros_up(now_us.saturating_add(delay_us))
            }
            Self::At(due) => due,
        }
    }

    /// Rejects a due time further away than [`DELAY_MAX`].
    pub(crate) fn checked(self, now: Timestamp) -> Result<Self> {
        let delay = match self {
            Self::Now => Duration::ZERO,
            Self::After(delay) => delay,
            Self::At(due) => due.since(now),
        };
        if delay > DELAY_MAX {
            let days = DELAY_MAX.as_secs() / 86_400;
            return Err(Error::invalid(format!(
                "the delay is {} days, at most {days} are allowed",
                delay.as_secs() / 86_400
            )));
        }
        Ok(self)
    }
}

impl From<Duration> for When {
    fn from(delay: Duration) -> Self {
        if delay.is_zero() {
            Self::Now
        } else {
            Self::After(delay)
        }
    }
}

impl From<SystemTime> for When {
    fn from(due: SystemTime) -> Self {
        Self::At(due.into())
    }
}

impl From<Timestamp> for When {
    fn from(due: Timestamp) -> Self {
        Self::At(due)
    }
}

/// Monotonic time of one process: nanoseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(u64);

impl Mono {
    /// The greatest value.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a time from nanoseconds since the start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the span since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Mono {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl Sub<Duration> for Mono {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// A source of time; the crate reads time from nowhere else.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The wall time in microseconds since the Unix epoch, UTC. Need not be monotonic: a store
    /// follows it with care, beside [`mono`](Self::mono), and never back.
    fn wall_us(&self) -> u64;

    /// The monotonic time. It counts what the machine was suspended, or a process that goes on after
    /// that relies on leases that it has lost, and takes the store's time for an earlier one.
    fn mono(&self) -> Mono;

    /// The wall time in whole milliseconds, rounded down.
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall_us() / 1_000)
    }
}

/// A clock that stands still where another one panics: a clock may be anybody's.
#[derive(Debug)]
pub(crate) struct GuardedClock {
    near: Arc<dyn Clock>,
    last_wall_us: AtomicU64,
    last_mono: AtomicU64,
}

impl GuardedClock {
    /// How often each time is looked at before it begins at that of the machine.
    const FIRST_LOOKS: usize = 8;

    pub(crate) fn new(near: Arc<dyn Clock>) -> Self {
        let looks = || 0..Self::FIRST_LOOKS;
        let wall_us = looks().find_map(|_| panics::caught(|| near.wall_us()).ok());
        let mono = looks().find_map(|_| panics::caught(|| near.mono()).ok());
        let machine = SystemClock::new();
        Self {
            last_wall_us: AtomicU64::new(wall_us.unwrap_or_else(|| machine.wall_us())),
            last_mono: AtomicU64::new(mono.unwrap_or_else(|| machine.mono()).0),
            near,
        }
    }

    pub(crate) fn shared(near: Arc<dyn Clock>) -> Arc<dyn Clock> {
        Arc::new(Self::new(near))
    }
}

impl Clock for GuardedClock {
    fn wall_us(&self) -> u64 {
        let read = panics::caught(|| self.near.wall_us());
        read.inspect(|us| self.last_wall_us.store(*us, Ordering::Relaxed))
            .unwrap_or_else(|_| self.last_wall_us.load(Ordering::Relaxed))
    }

    fn mono(&self) -> Mono {
        let read = panics::caught(|| self.near.mono());
        read.inspect(|mono| self.last_mono.store(mono.0, Ordering::Relaxed))
            .unwrap_or_else(|_| Mono(self.last_mono.load(Ordering::Relaxed)))
    }
}

/// The system clock: both clocks of the machine, as they are.
///
/// A store does not follow its wall clock at once: it measures the time that passes by the monotonic
/// clock, and believes another time of the wall clock only after it has stood for ten seconds.
///
/// On Linux, Android, Windows and Apple's systems its monotonic clock goes on while the machine is
/// suspended. Elsewhere it is [`std::time::Instant`], whatever that counts.
#[derive(Debug)]
pub struct SystemClock {
    started_ns: u64,
}

impl SystemClock {
    /// Creates a clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            started_ns: boot::boot_ns(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place that reads the wall clock
    fn wall_us(&self) -> u64 {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_micros();
        u64::try_from(wall).unwrap_or(u64::MAX)
    }

    fn mono(&self) -> Mono {
        Mono(boot::boot_ns().saturating_sub(self.started_ns))
    }
}
