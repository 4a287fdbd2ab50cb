//! Durability levels of an accepted push, and their text form.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, shown};

/// The failures that an accepted push survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// None: the event lives as long as the process.
    Memory,
    /// The death of any of this application's processes, but not a power cut.
    OsCache,
    /// A power cut.
    Disk,
    /// The loss of the machine: this many replicas have the event.
    Replicated(u16),
}

/// Formats as in settings: `memory`, `os_cache`, `disk` or `replicated:2`.
impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::OsCache => f.write_str("os_cache"),
            Self::Disk => f.write_str("disk"),
            Self::Replicated(others) => write!(f, "replicated:{others}"),
        }
    }
}

/// # Examples
///
/// ```
/// use duly::store::Durability;
///
/// assert_eq!("replicated:2".parse::<Durability>()?, Durability::Replicated(2));
/// assert!("replicated:0".parse::<Durability>().is_err());
/// # Ok::<(), duly::Error>(())
/// ```
impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let replicated = || {
            let others = text.strip_prefix("replicated:")?.parse().ok();
            others.filter(|others| *others > 0).map(Self::Replicated)
        };
        match text {
            "memory" => Ok(Self::Memory),
            "os_cache" => Ok(Self::OsCache),
            "disk" => Ok(Self::Disk),
            _ => replicated().ok_or_else(|| {
                Error::invalid(format!(
                    "`{}` is no durability; it is `memory`, `os_cache`, `disk`, or \
                     `replicated:` and how many others have it",
                    shown(text)
                ))
            }),
        }
    }
}
