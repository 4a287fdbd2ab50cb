//! Policies of a schedule: for occurrences that were missed, and for those that would overlap.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::{Error, Result, shown};

/// The most missed occurrences that are made up for.
pub const MAKE_UP_MAX: u16 = 1_000;

/// What becomes of occurrences whose time passed while no bus was there to push them, or while the
/// schedule was paused. Each has a record, whatever it is.
///
/// As text `skip`, `once` or `all(24)`. An occurrence that was pushed ahead of its time is not
/// missed, however late it is handled.
///
/// # Examples
///
/// ```
/// use duly::schedule::MissedPolicy;
///
/// assert_eq!("all(24)".parse::<MissedPolicy>()?, MissedPolicy::All(24));
/// assert_eq!(MissedPolicy::default().to_string(), "once");
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedPolicy {
    /// None is run. One that waits when the next is due expires, too.
    Skip,
    /// The latest is run, and stands for all of them. The default.
    #[default]
    Once,
    /// Each of the latest ones is run, so many at most, 1 to 1,000.
    All(u16),
}

/// What becomes of an occurrence that is due while the one before has not ended.
///
/// As text `allow`, `skip` or `wait`.
///
/// # Examples
///
/// ```
/// use duly::schedule::OverlapPolicy;
///
/// assert_eq!("skip".parse::<OverlapPolicy>()?, OverlapPolicy::Skip);
/// assert!("never".parse::<OverlapPolicy>().is_err());
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverlapPolicy {
    /// It is run beside the one before. The default.
    #[default]
    Allow,
    /// It is passed over, with a record.
    Skip,
    /// It waits until the one before has ended, at most some seconds longer.
    Wait,
}

impl fmt::Display for MissedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::Once => f.write_str("once"),
            Self::All(most) => write!(f, "all({most})"),
        }
    }
}

impl FromStr for MissedPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let many = |text: &str| {
            let most = text.strip_prefix("all(")?.strip_suffix(')')?;
            let most = most.trim().parse::<u16>().ok()?;
            (1..=MAKE_UP_MAX).contains(&most).then_some(most)
        };
        match text.trim() {
            "skip" => Ok(Self::Skip),
            "once" => Ok(Self::Once),
            text => many(text).map(Self::All).ok_or_else(|| {
                Error::invalid(format!(
                    "unknown policy for missed occurrences `{}`, expected `skip`, `once`, or \
                     `all(24)` with a number of 1 to {MAKE_UP_MAX}",
                    shown(text)
                ))
            }),
        }
    }
}

impl fmt::Display for OverlapPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::Wait => "wait",
        })
    }
}

impl FromStr for OverlapPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "allow" => Ok(Self::Allow),
            "skip" => Ok(Self::Skip),
            "wait" => Ok(Self::Wait),
            "cancel" => Err(Error::invalid(
                "`overlap` cannot be `cancel`: a handler that runs is not stopped from outside; give \
                 the queue a `timeout` shorter than the interval, and let the next one `wait`",
            )),
            text => Err(Error::invalid(format!(
                "unknown policy for overlapping occurrences `{}`, expected `allow`, `skip` or \
                 `wait`",
                shown(text)
            ))),
        }
    }
}

/// Makes values be written as their text.
macro_rules! as_text {
    ($($of:ty),*) => {$(
        impl Serialize for $of {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $of {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

as_text!(
    MissedPolicy,
    OverlapPolicy,
    crate::schedule::Recurrence,
    crate::event::LatePolicy
);
