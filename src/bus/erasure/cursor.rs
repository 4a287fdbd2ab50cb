//! A place in an erasure, as a text for parameters.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result, shown};
use crate::record::Cursor;

/// A place in an erasure, from which its next step goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErasureCursor {
    /// Among the events that are not over.
    Events,
    /// After this record, or before the first one.
    Record(Option<Cursor>),
}

impl ErasureCursor {
    pub(super) const FIRST_RECORD: Self = Self::Record(None);
}

/// Formats as `events`, `records` or the cursor of a record.
impl fmt::Display for ErasureCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events => f.write_str("events"),
            Self::Record(None) => f.write_str("records"),
            Self::Record(Some(after)) => after.fmt(f),
        }
    }
}

impl FromStr for ErasureCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "events" => Ok(Self::Events),
            "records" => Ok(Self::FIRST_RECORD),
            _ => {
                let after = text.parse().map_err(|_: Error| {
                    Error::invalid(format!(
                        "`{}` is not a cursor of an erasure; use `next` of the step before",
                        shown(text)
                    ))
                })?;
                Ok(Self::Record(Some(after)))
            }
        }
    }
}
