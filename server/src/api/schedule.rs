//! A schedule, as `/v1` returns it and commands show it.

use duly::admin::Schedule;
use duly::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// How many instants are shown.
const INSTANTS_SHOWN: usize = 10;

/// An instant of a schedule.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Instant {
    /// In milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub at_ms: u64,
    /// The same by the clocks of the schedule's time zone, with the offset from UTC.
    #[schema(example = "2026-01-01 01:00:00 +01:00")]
    pub clock: String,
}

/// An occurrence that was pushed.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Run {
    /// The id of its event.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub id: String,
    /// The queue of its event.
    #[schema(example = "report")]
    pub queue: String,
}

/// A schedule.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ScheduleView {
    /// Its name.
    #[schema(example = "nightly")]
    pub name: String,
    /// The queue that its occurrences are pushed to.
    #[schema(example = "report")]
    pub queue: String,
    /// When it recurs: a cron expression with its time zone, or an interval.
    #[schema(example = "0 2 * * * Europe/Berlin")]
    pub when: String,
    /// The same in words.
    #[schema(example = "At 02:00, Europe/Berlin")]
    pub meaning: String,
    /// The payload of each occurrence, byte by byte as it was set; absent if each has its occurrence as its
    /// payload.
    #[schema(value_type = Option<serde_json::Value>, example = json!({"report": "sales"}))]
    pub payload: Option<Box<RawValue>>,
    /// What becomes of missed occurrences: `skip`, `once` or `all(N)`.
    #[schema(example = "once")]
    pub missed: String,
    /// What becomes of an occurrence while the one before has not ended: `allow`, `skip` or `wait`.
    #[schema(example = "allow")]
    pub overlap: String,
    /// The window over which occurrences are spread, in milliseconds.
    #[schema(minimum = 0, maximum = 86400000, example = 0)]
    pub jitter_ms: u64,
    /// The days on which it rests.
    #[schema(example = json!(["2026-12-25"]))]
    pub exclude: Vec<String>,
    /// The only days on which it runs, if there are any.
    #[schema(example = json!(["2026-12-31"]))]
    pub only: Option<Vec<String>>,
    /// Since when it is paused, in milliseconds since the epoch; absent if it is not.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub paused_ms: Option<u64>,
    /// Its next instants, at most ten; none while it is paused.
    pub next: Vec<Instant>,
    /// The instants whose events are pushed already and are to come.
    pub ahead: Vec<Instant>,
    /// The last instant that an event was pushed for, in milliseconds since the epoch; it may be to
    /// come.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub last_ms: Option<u64>,
    /// When a program declared it last, in milliseconds since the epoch; absent if none does.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub declared_ms: Option<u64>,
    /// Whether programs declared it and none has done so for ten minutes. It goes on until it is
    /// removed.
    #[schema(example = false)]
    pub declaration_gone: bool,
    /// Whether a change waits to be carried out.
    #[schema(example = false)]
    pub changing: bool,
    /// When it is next due, and why, for people.
    #[schema(example = "next at 2026-01-02 02:00:00 +01:00, because of `0 2 * * * Europe/Berlin`")]
    pub explanation: String,
}

impl ScheduleView {
    /// The view of a schedule under these names.
    pub fn new(name: &str, queue: &str, schedule: &Schedule) -> Self {
        let options = &schedule.options;
        let when = options.recurrence();
        let instant = |at: Timestamp| Instant {
            at_ms: at.as_millis(),
            clock: when.clock_time(at),
        };
        let (exclude, only) = options.calendars();
        let dates = |dates: &duly::schedule::Calendar| {
            let text = dates.to_string();
            text.split_whitespace().map(str::to_owned).collect()
        };
        // It is JSON: a schedule takes no other payload.
        let payload = options.payload_text();
        let payload = payload.and_then(|json| RawValue::from_string(json.to_owned()).ok());
        Self {
            name: name.to_owned(),
            queue: queue.to_owned(),
            when: when.to_string(),
            meaning: when.describe(),
            payload,
            missed: options.missed_policy().to_string(),
            overlap: options.overlap_policy().to_string(),
            jitter_ms: u64::try_from(options.jitter_window().as_millis()).unwrap_or(u64::MAX),
            exclude: dates(exclude),
            only: only.map(dates),
            paused_ms: schedule.paused.map(Timestamp::as_millis),
            next: schedule
                .instants()
                .take(INSTANTS_SHOWN)
                .map(instant)
                .collect(),
            ahead: schedule.ahead.iter().copied().map(instant).collect(),
            last_ms: schedule.last.map(Timestamp::as_millis),
            declared_ms: schedule.declared.map(Timestamp::as_millis),
            declaration_gone: schedule.is_declaration_gone(),
            changing: schedule.is_changing,
            explanation: schedule.explain(),
        }
    }
}
