//! An occurrence of a schedule, as its event carries it.

use serde::{Deserialize, Serialize};

use crate::event::delivered::Event;
#[cfg(feature = "schedules")]
use crate::event::envelope::Headers;
use crate::time::Timestamp;

/// The header with the name of the schedule that an event is an occurrence of.
pub const SCHEDULE_HEADER: &str = "duly-schedule";
/// The header with the instant that an event stands for, in milliseconds since the Unix epoch.
pub const INSTANT_HEADER: &str = "duly-instant";
/// The header with the instant of the occurrence before, if there was one.
pub const PREVIOUS_HEADER: &str = "duly-previous";
/// The header with the number of earlier instants that were missed and that an event stands for as
/// well, if there are any.
pub const MISSED_HEADER: &str = "duly-missed";

/// An occurrence of a schedule: which one, and the span that it stands for.
///
/// The payload of a schedule's events, unless the schedule has one of its own; every occurrence also
/// carries it in its headers ([`Event::occurrence`]).
///
/// # Examples
///
/// ```
/// use duly::event::Occurrence;
/// use duly::prelude::*;
///
/// #[delay_event(queue = "report", register = false)]
/// async fn report(event: Event<Occurrence>) -> Result<(), Failure> {
///     let Occurrence { instant, previous, .. } = event.payload;
///     // Report what was sold from `previous` to `instant`.
///     # let _ = (instant, previous);
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// The name of the schedule.
    pub schedule: String,
    /// The instant that it stands for. Its event may be due later, by the schedule's jitter.
    pub instant: Timestamp,
    /// The instant of the occurrence before: this one stands for the time from then on. `None` for
    /// the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Timestamp>,
    /// How many earlier instants were missed, for which it stands as well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u64,
    /// Why it was not run, for the record of one that was passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<SkipReason>,
}

/// Why an occurrence of a schedule was passed over: its record has the outcome `expired`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkipReason {
    /// Nothing was there to push it at its time, and the schedule does not make up for it.
    Missed,
    /// The occurrence before had not ended, and the schedule does not let two overlap.
    Overlap,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Occurrence {
    /// Returns the headers of its event.
    #[cfg(feature = "schedules")]
    pub(crate) fn headers(&self) -> Headers {
        let mut headers = vec![
            (SCHEDULE_HEADER.to_owned(), self.schedule.clone()),
            (
                INSTANT_HEADER.to_owned(),
                self.instant.as_millis().to_string(),
            ),
        ];
        if let Some(previous) = self.previous {
            headers.push((PREVIOUS_HEADER.to_owned(), previous.as_millis().to_string()));
        }
        if self.missed > 0 {
            headers.push((MISSED_HEADER.to_owned(), self.missed.to_string()));
        }
        headers
    }

    /// Reads the headers of an event; `None` for one that is no occurrence.
    #[must_use]
    pub fn of_headers(headers: &[(String, String)]) -> Option<Self> {
        let find = |name| {
            let found = headers.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str())
        };
        let number = |name| find(name).and_then(|value| value.parse::<u64>().ok());
        Some(Self {
            schedule: find(SCHEDULE_HEADER)?.to_owned(),
            instant: Timestamp::from_millis(number(INSTANT_HEADER)?),
            previous: number(PREVIOUS_HEADER).map(Timestamp::from_millis),
            missed: number(MISSED_HEADER).unwrap_or(0),
            skipped: None,
        })
    }
}

impl<T> Event<T> {
    /// The occurrence of a schedule that it stands for, if it does.
    #[must_use]
    pub fn occurrence(&self) -> Option<Occurrence> {
        Occurrence::of_headers(self.headers())
    }
}
