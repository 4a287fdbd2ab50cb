//! What becomes of an event that reaches its consumer late.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::duration;
use crate::error::{Error, Result, shown};

/// What becomes of an event that reaches its consumer late.
///
/// Lateness counts from the due time of the attempt. As text, in settings and annotations, it is
/// `deliver`, `expire(5m)` or `bury(5m)`.
///
/// # Examples
///
/// ```
/// use duly::Late;
/// use std::time::Duration;
///
/// let late: Late = "expire(5m)".parse()?;
/// assert_eq!(late, Late::Expire(Duration::from_secs(300)));
/// assert_eq!(late.to_string(), "expire(5m)");
/// assert_eq!("deliver".parse::<Late>()?, Late::Deliver);
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// Deliver it all the same. The default.
    #[default]
    Deliver,
    /// Later than this it is of no use: it ends as expired.
    Expire(Duration),
    /// Later than this somebody should look at it: it ends as a dead letter.
    Bury(Duration),
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deliver => f.write_str("deliver"),
            Self::Expire(limit) => write!(f, "expire({})", duration::format(*limit)),
            Self::Bury(limit) => write!(f, "bury({})", duration::format(*limit)),
        }
    }
}

impl FromStr for Late {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "deliver" {
            return Ok(Self::Deliver);
        }
        let limit = |form: &str| {
            text.strip_prefix(form)?
                .strip_prefix('(')?
                .strip_suffix(')')
        };
        let read = |limit: &str| {
            let words = |error: duration::ParseDurationError| Error::invalid(error.to_string());
            duration::parse(limit).map_err(words)
        };
        if let Some(limit) = limit("expire") {
            read(limit).map(Self::Expire)
        } else if let Some(limit) = limit("bury") {
            read(limit).map(Self::Bury)
        } else {
            Err(Error::invalid(format!(
                "unknown late policy `{}`, expected `deliver`, `expire(5m)` or `bury(5m)`",
                shown(text)
            )))
        }
    }
}
