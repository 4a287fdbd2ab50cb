//! The lateness policy of an event.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use duly_options::late::{self, Late};

use crate::duration;
use crate::error::{Error, Result, shown};
use crate::time::Timestamp;

/// The lateness policy: what to do with an event that reaches its consumer late.
///
/// Lateness counts from the due time of the attempt. As text, in settings and annotations, it is
/// `deliver`, `expire(5m)` or `bury(5m)`.
///
/// # Examples
///
/// ```
/// use duly::LatePolicy;
/// use std::time::Duration;
///
/// let late: LatePolicy = "expire(5m)".parse()?;
/// assert_eq!(late, LatePolicy::Expire(Duration::from_secs(300)));
/// assert_eq!(late.to_string(), "expire(5m)");
/// assert_eq!("deliver".parse::<LatePolicy>()?, LatePolicy::Deliver);
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatePolicy {
    /// Deliver it anyway. The default.
    #[default]
    Deliver,
    /// Expire it if it is later than this: it is useless by then.
    Expire(Duration),
    /// Bury it as a dead letter if it is later than this: it needs attention.
    Bury(Duration),
}

/// Why an event must not be delivered any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StaleReason {
    /// It has expired, by its expiry or by its lateness policy.
    Expired,
    /// It is to be buried, as it is later than its policy allows.
    TooLate,
}

impl StaleReason {
    /// Returns why an event of this expiry, policy and due time must not be delivered at `now_us`,
    /// if so.
    pub(crate) fn at(
        now_us: u64,
        expires: Option<Timestamp>,
        (late, due): (LatePolicy, Timestamp),
    ) -> Option<Self> {
        let passed = |limit: Duration| {
            let late_us = now_us.saturating_sub(due.as_micros());
            u128::from(late_us) * 1_000 > limit.as_nanos()
        };
        if expires.is_some_and(|at| at.as_micros() <= now_us) {
            return Some(Self::Expired);
        }
        match late {
            LatePolicy::Expire(limit) if passed(limit) => Some(Self::Expired),
            LatePolicy::Bury(limit) if passed(limit) => Some(Self::TooLate),
            _ => None,
        }
    }

    /// Returns what a caller that waits for the reply to the event is told.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Expired => "the event expired before its handler started",
            Self::TooLate => "the event is later than its policy allows",
        }
    }
}

impl fmt::Display for LatePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deliver => f.write_str("deliver"),
            Self::Expire(limit) => write!(f, "expire({})", duration::format(*limit)),
            Self::Bury(limit) => write!(f, "bury({})", duration::format(*limit)),
        }
    }
}

impl FromStr for LatePolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match late::parse(text).map_err(|error| Error::invalid(error.to_string()))? {
            Some(Late::Deliver) => Ok(Self::Deliver),
            Some(Late::Expire(limit)) => Ok(Self::Expire(limit)),
            Some(Late::Bury(limit)) => Ok(Self::Bury(limit)),
            None => Err(Error::invalid(format!(
                "unknown late policy `{}`, expected {}",
                shown(text),
                late::EXPECTED
            ))),
        }
    }
}
