//! The kinds of values, and their bounds.

use std::time::Duration;

use crate::{duration, rate};

/// The kind of an option's value, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number, from the first to the second.
    Number(u64, u64),
    /// A power of two, from the first to the second.
    PowerOfTwo(u64, u64),
    /// A duration, from the first to the second.
    Span(Duration, Duration),
    /// A retry policy.
    Backoff,
    /// A lateness policy.
    Late,
    /// A rate, in starts per second.
    Rate,
    /// `true` or `false`.
    Flag,
    /// A codec.
    Codec,
}

/// What the bounds of a value are about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// A number.
    Number(u64),
    /// A duration.
    Duration(Duration),
    /// A rate, in starts per second.
    Rate(f64),
    /// A value that has no bounds.
    Unbounded,
}

impl Kind {
    /// Returns whether the value is within the bounds.
    #[must_use]
    pub fn allows(self, value: Measure) -> bool {
        match (self, value) {
            (Self::Number(least, most), Measure::Number(number)) => {
                (least..=most).contains(&number)
            }
            (Self::PowerOfTwo(least, most), Measure::Number(number)) => {
                number.is_power_of_two() && (least..=most).contains(&number)
            }
            (Self::Span(least, most), Measure::Duration(duration)) => {
                (least..=most).contains(&duration)
            }
            (Self::Rate, Measure::Rate(per_second)) => rate::is_possible(per_second),
            _ => true,
        }
    }

    /// Returns the bounds in words: `1 to 1024`.
    #[must_use]
    pub fn bounds(self) -> String {
        const NANOSECOND: Duration = Duration::from_nanos(1);
        match self {
            Self::Number(0, u64::MAX) => "a whole number".to_owned(),
            Self::Number(least, most) => format!("{least} to {most}"),
            Self::PowerOfTwo(least, most) => format!("a power of two from {least} to {most}"),
            Self::Span(Duration::ZERO, Duration::MAX) => "a duration".to_owned(),
            Self::Span(Duration::ZERO, most) => format!("at most {}", duration::format(most)),
            Self::Span(NANOSECOND, most) => {
                format!("more than 0s and at most {}", duration::format(most))
            }
            Self::Span(least, most) => {
                format!("{} to {}", duration::format(least), duration::format(most))
            }
            Self::Rate => format!(
                "{} to {}; to start nothing, pause the queue",
                rate::format(rate::RATE_MIN),
                rate::format(rate::RATE_MAX)
            ),
            Self::Backoff | Self::Late | Self::Flag | Self::Codec => self.expects(),
        }
    }

    /// Returns what a value of settings must be: `a whole number from 1 to 1024`.
    #[must_use]
    pub fn expects(self) -> String {
        match self {
            Self::Number(0, u64::MAX) | Self::PowerOfTwo(..) => self.bounds(),
            Self::Number(..) => format!("a whole number from {}", self.bounds()),
            Self::Span(..) => "a duration such as `250ms`, `30s` or `1m30s`".to_owned(),
            Self::Backoff => "a text such as `fixed(5s)` or `exp(1s..10m, jitter 10%)`".to_owned(),
            Self::Late => "`deliver`, or a text such as `expire(5m)` or `bury(5m)`".to_owned(),
            Self::Rate => "a text such as `50/s`, `300/m` or `10/h`".to_owned(),
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Codec => "`json`, `msgpack` or `raw`".to_owned(),
        }
    }
}
