//! The choices for records: where they are kept, how many, and for how long.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, Result, redact_url};
use crate::record::Keep;
use crate::store::{OutboxLimit, WhenFull};

/// How many wait in an outbox of a store that many processes share, while the journal is away.
const OUTBOX_MAX: u64 = 100_000;

/// Choices for the records of a bus; what is `None` is left to a weaker source.
///
/// The sources are, weakest first: the defaults, the section `records` of the settings file, the
/// environment, the builder.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use duly::journal::RecordChoices;
///
/// let choices = RecordChoices {
///     journal: Some("postgres://duly@db/records".to_owned()),
///     keep: Some(Duration::from_secs(90 * 86_400)),
///     ..RecordChoices::default()
/// };
/// assert!(choices.check().is_ok());
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct RecordChoices {
    /// The journal: `off`, `sqlite:` and the path of a file, or `postgres://host/database`.
    /// Default: `off`. A store at `sqlite:path` keeps its records in its own file and takes none.
    pub journal: Option<String>,
    /// How long a record is kept, at least 1 s. Default: 30 days, since most
    /// questions are about the last one. Of processes that share a journal in PostgreSQL the
    /// greatest within a day holds, as of `keep_max` and `keep_minutes`; those that share a file
    /// each go by their own.
    pub keep: Option<Duration>,
    /// How many records are kept, at least 1. Default: 10,000,000, some gigabytes.
    pub keep_max: Option<u64>,
    /// How long counts and lateness by minute are kept, at least 1 s. Default: 400 days, so that
    /// a year can be compared with the one before; they take little.
    pub keep_minutes: Option<Duration>,
    /// Whether all that is older goes at once. Default: no; what is older than `keep` or
    /// `keep_minutes` goes at a tenth of that time in an hour, since a clock that jumps ahead makes
    /// everything look old. For when `keep` was made much shorter, and room is needed: what other
    /// processes keep does not hold then.
    pub prune_at_once: Option<bool>,
    /// How many records wait in an outbox at most while the journal is away, at least 1. Default:
    /// 100,000 in each bucket of a store that many processes share, some ten megabytes; as many as
    /// it keeps anyway in any other store. On Redis a bucket keeps no more than its share of
    /// `RedisOptions::records_total`.
    pub outbox_max: Option<u64>,
    /// What happens when more wait. Default: [`WhenFull::DropOldest`], since handlers matter more
    /// than their records.
    pub when_full: Option<WhenFull>,
}

impl RecordChoices {
    /// The same with every choice that `stronger` makes.
    #[must_use]
    pub fn with(self, stronger: Self) -> Self {
        Self {
            journal: stronger.journal.or(self.journal),
            keep: stronger.keep.or(self.keep),
            keep_max: stronger.keep_max.or(self.keep_max),
            keep_minutes: stronger.keep_minutes.or(self.keep_minutes),
            prune_at_once: stronger.prune_at_once.or(self.prune_at_once),
            outbox_max: stronger.outbox_max.or(self.outbox_max),
            when_full: stronger.when_full.or(self.when_full),
        }
    }

    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming value and bound.
    pub fn check(&self) -> Result<()> {
        const SECOND: Duration = Duration::from_secs(1);
        for (name, span) in [("keep", self.keep), ("keep_minutes", self.keep_minutes)] {
            if let Some(span) = span.filter(|span| *span < SECOND) {
                return Err(Error::invalid(format!(
                    "records.{name} is {span:?}, it is at least 1s"
                )));
            }
        }
        for (name, count) in [("keep_max", self.keep_max), ("outbox_max", self.outbox_max)] {
            if count == Some(0) {
                return Err(Error::invalid(format!(
                    "records.{name} is 0, it is at least 1"
                )));
            }
        }
        Ok(())
    }

    /// How long records are kept, and how many.
    #[must_use]
    pub fn keep(&self) -> Keep {
        let otherwise = Keep::default();
        Keep {
            age: self.keep.or(otherwise.age),
            count: self.keep_max.or(otherwise.count),
            minutes: self.keep_minutes.or(otherwise.minutes),
            at_once: self.prune_at_once.unwrap_or(otherwise.at_once),
        }
    }

    /// Returns the keys that are set and say something to a journal alone.
    pub(crate) fn of_a_journal(&self) -> Vec<&'static str> {
        let keys = [
            ("records.keep", self.keep.is_some()),
            ("records.keep_max", self.keep_max.is_some()),
            ("records.keep_minutes", self.keep_minutes.is_some()),
            ("records.prune_at_once", self.prune_at_once.is_some()),
        ];
        let set = keys.into_iter().filter(|(_, is_set)| *is_set);
        set.map(|(key, _)| key).collect()
    }

    /// What an outbox keeps for the journal, in a store that is shared or not.
    #[must_use]
    pub fn outbox(&self, is_shared: bool) -> OutboxLimit {
        OutboxLimit {
            max: self.outbox_max.or(is_shared.then_some(OUTBOX_MAX)),
            when_full: self.when_full.unwrap_or_default(),
        }
    }
}

/// Without the password that may stand in the journal's url.
impl fmt::Debug for RecordChoices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordChoices")
            .field("journal", &self.journal.as_deref().map(redact_url))
            .field("keep", &self.keep)
            .field("keep_max", &self.keep_max)
            .field("keep_minutes", &self.keep_minutes)
            .field("prune_at_once", &self.prune_at_once)
            .field("outbox_max", &self.outbox_max)
            .field("when_full", &self.when_full)
            .finish()
    }
}
