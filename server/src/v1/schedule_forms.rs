//! The forms of requests about schedules, and of their responses.

use duly::ErrorKind;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::input::{self, any_json};
use super::problem::{Problem, Result};
use crate::lmstfy::names::{NAME_BYTES_MAX, is_name};
use crate::schedules::NewSchedule;

/// The longest name of a schedule, that of its namespace and a dot included.
const NAME_LEN_MAX: usize = 200;

/// The path of a schedule.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct SchedulePath {
    /// The namespace that the token is for.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "shop"
    )]
    pub(super) namespace: String,
    /// The schedule. With its namespace and a dot between them it has at most 200 characters.
    #[param(
        min_length = 1,
        max_length = 198,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "nightly"
    )]
    pub(super) schedule: String,
}

impl SchedulePath {
    /// Returns the name of the schedule in the library.
    pub(super) fn full_name(&self) -> Result<String> {
        let Self {
            namespace,
            schedule,
        } = self;
        let full = format!("{namespace}.{schedule}");
        if is_name(schedule) && full.len() <= NAME_LEN_MAX {
            return Ok(full);
        }
        Err(Problem::invalid(format!(
            "a schedule has a name of letters, digits, `-` and `_`, with its namespace and a dot at \
             most {NAME_LEN_MAX} characters"
        )))
    }

    /// Returns the problem of an error; a schedule that was removed meanwhile is unknown.
    pub(super) fn failed(&self, error: duly::Error) -> Problem {
        match error.kind() {
            ErrorKind::NotFound => self.unknown(),
            _ => error.into(),
        }
    }

    pub(super) fn unknown(&self) -> Problem {
        let Self {
            namespace,
            schedule,
        } = self;
        Problem::not_found(format!("there is no schedule {namespace}.{schedule}"))
    }
}

/// A schedule to set. A `PUT` replaces all of it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScheduleBody {
    /// The queue that its occurrences are pushed to.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "report"
    )]
    queue: String,
    /// When it recurs: a cron expression and its time zone, UTC where there is none, or an interval such as
    /// `every 15m`.
    #[schema(example = "0 2 * * * Europe/Berlin")]
    when: String,
    /// The payload of each occurrence: any JSON, at most 65,536 bytes, which are kept as they are.
    /// Default: each has its occurrence as its payload, an object with `schedule`, `instant`,
    /// `previous` and `missed`.
    #[serde(default, deserialize_with = "any_json")]
    #[schema(value_type = Option<serde_json::Value>, example = json!({"report": "sales"}))]
    payload: Option<Box<RawValue>>,
    /// What becomes of occurrences whose time passed while nothing was there to push them, or while
    /// it was paused: `skip`, `once`, or `all(24)` for the latest 24. Default: `once`.
    #[schema(
        pattern = "^(skip|once|all\\(([1-9][0-9]{0,2}|1000)\\))$",
        example = "once"
    )]
    missed: Option<String>,
    /// What becomes of an occurrence while the one before has not ended: `allow`, `skip`, `wait`.
    /// Default: `allow`.
    #[schema(pattern = "^(allow|skip|wait)$", example = "allow")]
    overlap: Option<String>,
    /// The window over which occurrences are spread, in milliseconds. Default: 0.
    #[serde(default, deserialize_with = "input::whole")]
    #[schema(minimum = 0, maximum = 86400000, default = 0)]
    jitter_ms: u64,
    /// The days on which it rests, in its time zone. Default: none.
    #[serde(default)]
    #[schema(max_items = 2000, example = json!(["2026-12-25"]))]
    exclude: Vec<String>,
    /// The only days on which it runs. Default: every day.
    #[schema(max_items = 2000, example = json!(["2026-12-31"]))]
    only: Option<Vec<String>>,
}

/// Which page of the schedules.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SchedulePageQuery {
    /// The `next` of the page before: the name with which it ended.
    #[param(
        min_length = 1,
        max_length = 198,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "nightly"
    )]
    pub(super) after: Option<String>,
    /// The size of the page, 1 to 1,000. Default: 100.
    #[param(minimum = 1, maximum = 1000, example = 100)]
    pub(super) limit: Option<usize>,
}

impl ScheduleBody {
    pub(super) fn options(self, namespace: &str) -> Result<duly::schedule::ScheduleOptions> {
        let queue = &self.queue;
        if !is_name(queue) || queue.len() > NAME_BYTES_MAX {
            return Err(Problem::invalid(format!(
                "queue must have 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`"
            )));
        }
        let new = NewSchedule {
            queue: format!("{namespace}.{queue}"),
            when: self.when,
            payload: self.payload.map(|json| json.get().to_owned()),
            missed: self.missed,
            overlap: self.overlap,
            jitter_ms: self.jitter_ms,
            exclude: self.exclude,
            only: self.only,
        };
        Ok(new.options()?)
    }
}
