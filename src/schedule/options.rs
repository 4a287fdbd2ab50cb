//! The options of a schedule.

use std::borrow::Cow;
use std::iter;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::codec::{Codec, CodecError, Encoded, encode};
use crate::error::{Error, Result};
use crate::event::{QueueName, check_spread};
use crate::schedule::dates::{Calendar, before_day, date_of};
use crate::schedule::{MissedPolicy, OverlapPolicy, Recurrence};
use crate::time::Timestamp;

/// The options of a schedule: where its occurrences go, when, with what, and what becomes of those
/// that could not be in time.
///
/// # Examples
///
/// ```
/// use duly::schedule::{MissedPolicy, OverlapPolicy, ScheduleOptions};
///
/// let nightly = ScheduleOptions::new("report", "0 2 * * * Europe/Berlin")?
///     .payload(&"sales")?
///     .missed(MissedPolicy::Skip)
///     .overlap(OverlapPolicy::Skip);
/// assert_eq!(nightly.recurrence().to_string(), "0 2 * * * Europe/Berlin");
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[must_use = "they do nothing until a schedule is set with them"]
pub struct ScheduleOptions {
    queue: QueueName,
    #[serde(deserialize_with = "stored")]
    when: Recurrence,
    /// As JSON; `None`: each event has its occurrence as its payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(default)]
    missed: MissedPolicy,
    #[serde(default)]
    overlap: OverlapPolicy,
    #[serde(default, rename = "jitter_ms", skip_serializing_if = "is_zero")]
    jitter: u64,
    /// The days on which it rests.
    #[serde(default, skip_serializing_if = "Calendar::is_empty")]
    exclude: Calendar,
    /// The only days on which it runs, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    only: Option<Calendar>,
}

fn stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Recurrence, D::Error> {
    let text = Cow::<'de, str>::deserialize(deserializer)?;
    Ok(Recurrence::stored(&text))
}

fn is_zero(millis: &u64) -> bool {
    *millis == 0
}

impl ScheduleOptions {
    /// Pushes an event into `queue` whenever `when` says: a cron expression or an interval, as the
    /// [page of the module](crate::schedule) has them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a name that no queue can have, and a
    /// text that is no recurrence, each with what would be right.
    pub fn new(queue: &str, when: &str) -> Result<Self> {
        Ok(Self::of(QueueName::new(queue)?, when.parse()?))
    }

    /// The same of what is parsed already.
    pub fn of(queue: QueueName, when: Recurrence) -> Self {
        Self {
            queue,
            when,
            payload: None,
            missed: MissedPolicy::default(),
            overlap: OverlapPolicy::default(),
            jitter: 0,
            exclude: Calendar::default(),
            only: None,
        }
    }

    /// Sets the payload of all occurrences. Default: each has its
    /// [`Occurrence`](crate::event::Occurrence) as its payload.
    ///
    /// It is stored as JSON, whatever the codec of the queue is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if JSON cannot carry it: a float that is no
    /// number, an empty value in an option, or what is nested too deeply. What the handler of the queue
    /// cannot read is refused where the schedule is set, in a program that has this handler.
    pub fn payload(mut self, value: &impl Serialize) -> Result<Self> {
        let wrong = |error: CodecError| {
            Error::invalid("the payload of the schedule cannot be written as JSON").because(error)
        };
        let encoded = encode(Codec::Json, value).and_then(Encoded::certain);
        let json = String::from_utf8(encoded.map_err(wrong)?);
        self.payload = Some(json.map_err(|error| wrong(error.into()))?);
        Ok(self)
    }

    /// Sets the payload as a text of JSON, which is kept as it is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for what is no JSON.
    pub fn payload_json(mut self, json: impl Into<String>) -> Result<Self> {
        let json = json.into();
        serde_json::from_str::<serde::de::IgnoredAny>(&json).map_err(|error| {
            Error::invalid(format!("the payload of the schedule is no JSON: {error}"))
        })?;
        self.payload = Some(json);
        Ok(self)
    }

    /// Sets what becomes of missed occurrences. Default: [`MissedPolicy::Once`].
    pub fn missed(mut self, missed: MissedPolicy) -> Self {
        self.missed = missed;
        self
    }

    /// Sets what becomes of an occurrence that would overlap the one before. Default:
    /// [`OverlapPolicy::Allow`].
    pub fn overlap(mut self, overlap: OverlapPolicy) -> Self {
        self.overlap = overlap;
        self
    }

    /// Makes each occurrence due later than its instant by a random part of `window`, so that many
    /// schedules of one instant do not start at once. At most a day. Default: zero.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for more than a day.
    pub fn jitter(mut self, window: Duration) -> Result<Self> {
        check_spread(window)?;
        self.jitter = u64::try_from(window.as_millis()).unwrap_or(u64::MAX); // a day at most
        Ok(self)
    }

    /// Leaves out the days of a calendar, in addition to those of others. A day is one of the time
    /// zone of the expression; that of an interval is UTC's.
    ///
    /// The calendars have at most 2,000 dates together; a schedule with more cannot be set.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::schedule::{Calendar, ScheduleOptions};
    ///
    /// let holidays: Calendar = "2026-12-25 2026-12-26".parse()?;
    /// let workdays = ScheduleOptions::new("invoice", "0 9 * * MON-FRI Europe/Berlin")?;
    /// let workdays = workdays.exclude(&holidays);
    /// # let _ = workdays;
    /// # Ok::<(), duly::Error>(())
    /// ```
    pub fn exclude(mut self, days: &Calendar) -> Self {
        self.exclude.add(days);
        self
    }

    /// Runs on the days of a calendar alone, or of several; they have at most 2,000 dates together,
    /// too.
    pub fn only(mut self, days: &Calendar) -> Self {
        self.only.get_or_insert_default().add(days);
        self
    }

    /// The queue of its occurrences.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// When it recurs, apart from its calendars.
    #[must_use]
    pub fn recurrence(&self) -> &Recurrence {
        &self.when
    }

    /// Leaves the payload out if it is larger than this; returns whether it did.
    pub(crate) fn leave_payload_out(&mut self, payload_max: usize) -> bool {
        self.payload.take_if(|it| it.len() > payload_max).is_some()
    }

    /// Its payload as JSON, if it has one.
    #[must_use]
    pub fn payload_text(&self) -> Option<&str> {
        self.payload.as_deref()
    }

    /// What becomes of missed occurrences.
    #[must_use]
    pub fn missed_policy(&self) -> MissedPolicy {
        self.missed
    }

    /// What becomes of an occurrence that would overlap the one before.
    #[must_use]
    pub fn overlap_policy(&self) -> OverlapPolicy {
        self.overlap
    }

    /// The window over which its occurrences are spread.
    #[must_use]
    pub fn jitter_window(&self) -> Duration {
        Duration::from_millis(self.jitter)
    }

    /// The days that are left out, and the only ones on which it runs.
    #[must_use]
    pub fn calendars(&self) -> (&Calendar, Option<&Calendar>) {
        (&self.exclude, self.only.as_ref())
    }

    /// Returns all its instants after `after`, in order: those of its recurrence that its calendars
    /// let pass.
    pub fn instants(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        let mut after = after;
        iter::from_fn(move || {
            after = self.next_after(after)?;
            Some(after)
        })
    }

    fn next_after(&self, mut after: Timestamp) -> Option<Timestamp> {
        let only = self.only.as_ref();
        if self.exclude.is_empty() && only.is_none() {
            return self.when.next_after(after);
        }
        let zone = self.when.time_zone();
        loop {
            let next = self.when.next_after(after)?;
            let day = date_of(next, &zone)?;
            let wanted = match only {
                Some(only) => only.first_from(day)?,
                None => day,
            };
            if wanted == day && !self.exclude.has(day) {
                return Some(next);
            }
            let wanted = if wanted == day {
                day.tomorrow().ok()?
            } else {
                wanted
            };
            after = before_day(wanted, &zone)?.max(next);
        }
    }

    /// Rejects a recurrence that is not known here, and calendars that have more dates together than
    /// a stored schedule may have.
    pub(crate) fn check(&self) -> Result<()> {
        self.when.check()?;
        self.exclude.check()?;
        self.only.as_ref().map_or(Ok(()), Calendar::check)
    }

    /// Tells it from other options: two that differ have different ones.
    pub(crate) fn fingerprint(&self) -> u64 {
        // Each of its parts can be written.
        xxh3_64(&serde_json::to_vec(self).unwrap_or_default())
    }
}
