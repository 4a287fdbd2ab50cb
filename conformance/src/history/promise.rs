//! The promises that a history is checked against.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use duly::EventId;

/// A promise; the numbers are those of the [guide to delivery](duly::_docs::delivery).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Promise {
    /// 1: an accepted event is delivered, or its record says what else became of it.
    Accepted,
    /// 2: no handler starts before the due time.
    NeverEarly,
    /// 3: a cancel, a reschedule and an update report the actual result.
    Truth,
    /// 4: attempts are bounded, and counted.
    Attempts,
    /// 5: every attempt that ends leaves a record, and only those.
    Records,
    /// 6: nothing is dropped because something is full.
    Full,
    /// 7: one queue never delays another.
    Apart,
    /// 8: a stop loses nothing.
    Stopping,
    /// 9: a lost worker is detected by its lease, and its events have one owner at a time.
    LostWorkers,
    /// 10: a pushed id is a promise.
    Ids,
    /// 11: doubt stops, silence never.
    Doubt,
}

impl Promise {
    /// Every promise, by number.
    pub const ALL: [Self; 11] = [
        Self::Accepted,
        Self::NeverEarly,
        Self::Truth,
        Self::Attempts,
        Self::Records,
        Self::Full,
        Self::Apart,
        Self::Stopping,
        Self::LostWorkers,
        Self::Ids,
        Self::Doubt,
    ];

    /// Returns its number in the guide.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Returns its title in the guide.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::NeverEarly => "never early",
            Self::Truth => "the truth about a cancel",
            Self::Attempts => "bounded attempts",
            Self::Records => "records",
            Self::Full => "full is not lost",
            Self::Apart => "queues apart",
            Self::Stopping => "stopping",
            Self::LostWorkers => "lost workers",
            Self::Ids => "ids",
            Self::Doubt => "doubt",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "promise {} ({})", self.number(), self.title())
    }
}

/// A violation of a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenPromise {
    /// The promise.
    pub promise: Promise,
    /// The event that shows it, if any.
    pub id: Option<EventId>,
    /// The observation.
    pub text: Cow<'static, str>,
}

impl BrokenPromise {
    /// Creates a violation, of an event or of none in particular.
    #[must_use]
    pub fn new(promise: Promise, id: Option<EventId>, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self { promise, id, text }
    }
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.text)
    }
}

/// The result of checking one entry.
pub(super) type Checked = Result<(), Violation>;

/// A violation, of an event that the caller knows.
pub(super) type Violation = (Promise, &'static str);

/// Returns a violation.
pub(super) fn broken(promise: Promise, text: &'static str) -> Checked {
    Err((promise, text))
}
