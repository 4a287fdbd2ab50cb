//! A place in an erasure, as a text for parameters.

use std::fmt;
use std::str::FromStr;

use crate::bus::scan::EventCursor;
use crate::error::{Error, Result, shown};
use crate::record::Cursor;

/// A place in an erasure, from which its next step goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErasureCursor {
    /// At this event, in the look for those that wait, before anything is erased.
    Look(EventCursor),
    /// At this event, among those that are not over.
    Events(EventCursor),
    /// After this record, or before the first one.
    Record(Option<Cursor>),
}

impl ErasureCursor {
    pub(super) const FIRST_RECORD: Self = Self::Record(None);
}

/// Formats as `look:` or `events:` and the cursor of an event, as `records`, or as the cursor of a record.
impl fmt::Display for ErasureCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Look(at) => write!(f, "look:{at}"),
            Self::Events(at) => write!(f, "events:{at}"),
            Self::Record(None) => f.write_str("records"),
            Self::Record(Some(after)) => after.fmt(f),
        }
    }
}

impl FromStr for ErasureCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = match text.split_once(':') {
            Some(("look", at)) => at.parse().map(Self::Look),
            Some(("events", at)) => at.parse().map(Self::Events),
            _ if text == "records" => Ok(Self::FIRST_RECORD),
            _ => text.parse().map(|after| Self::Record(Some(after))),
        };
        read.map_err(|_: Error| {
            Error::invalid(format!(
                "`{}` is not a cursor of an erasure; use `next` of the step before",
                shown(text)
            ))
        })
    }
}
