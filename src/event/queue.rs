//! Validated queue names.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::{Error, Result, shown};

/// What the names of queues of lines of the audit end with: one for each namespace, and one without
/// any. They have events and no consumer, and are in no list.
pub(crate) const AUDIT: &str = "duly.audit";
/// What the names of queues of lines about what programs did end with. They are of the audit as well.
pub(crate) const PROGRAM_AUDIT: &str = "duly.audit.programs";

/// What the names of queues of replies end with.
pub(crate) const REPLIES: &str = "duly.replies";
/// What the names of queues of schedules end with.
pub(crate) const SCHEDULES: &str = "duly.schedules";

/// Returns whether a queue is one of lines of the audit.
pub(crate) fn is_audit(queue: &QueueName) -> bool {
    queue.is_named(AUDIT) || queue.is_named(PROGRAM_AUDIT)
}

/// Returns whether a queue is one of schedules.
pub(crate) fn has_schedules(queue: &QueueName) -> bool {
    queue.is_named(SCHEDULES)
}

/// A validated queue name.
///
/// One to 512 letters, digits, `.`, `_` and `-`, the first not a `.`, so that a name fits unescaped
/// into a Redis key, a metric label and a URL. Cloning is cheap.
///
/// # Examples
///
/// ```
/// use duly::QueueName;
///
/// let name: QueueName = "order-close".parse()?;
/// assert_eq!(name.as_str(), "order-close");
/// assert!("order:close".parse::<QueueName>().is_err());
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

impl QueueName {
    /// The most characters of a name.
    pub const LEN_MAX: usize = 512;

    /// Validates `name`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), with the reason.
    pub fn new(name: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Err(Error::invalid(format!(
                "queue name \"{}\" {what}; a queue name is 1 to {} letters, digits, '.', '_' or \
                 '-', and does not start with '.'",
                shown(name),
                Self::LEN_MAX
            )))
        };
        if name.is_empty() {
            return wrong("is empty");
        }
        if name.len() > Self::LEN_MAX {
            return wrong("is too long");
        }
        if name.starts_with('.') {
            return wrong("starts with '.'");
        }
        if !name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        {
            return wrong("has another character");
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether it is one of the bus's own queues: of schedules, of replies to calls, or of
    /// lines of the audit. What is in them is no event that a user means.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::QueueName;
    ///
    /// assert!(QueueName::new("shop.duly.schedules")?.is_own());
    /// assert!(!QueueName::new("shop.orders")?.is_own());
    /// # Ok::<_, duly::Error>(())
    /// ```
    #[must_use]
    pub fn is_own(&self) -> bool {
        [AUDIT, PROGRAM_AUDIT, REPLIES, SCHEDULES]
            .iter()
            .any(|own| self.is_named(own))
    }

    /// Returns whether it has this name within its namespace.
    fn is_named(&self, own: &str) -> bool {
        let namespace = self.strip_suffix(own);
        namespace.is_some_and(|it| it.is_empty() || it.ends_with('.'))
    }
}

impl FromStr for QueueName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl Deref for QueueName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for QueueName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for QueueName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for QueueName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::new(&name).map_err(de::Error::custom)
    }
}
