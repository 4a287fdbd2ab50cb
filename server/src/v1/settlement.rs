//! The end of an attempt, as JSON.

use std::time::Duration;

use axum::http::StatusCode;
use duly::lease::LeaseOutcome;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::event::SPAN_MS_MAX;
use super::input::{self, any_json};
use super::problem::{Problem, Result};

/// How an attempt ended.
#[allow(dead_code)] // the description of what `SettlementFields` reads
#[derive(Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Settlement {
    /// The event is done.
    #[schema(title = "Ack")]
    Ack {
        /// The reply to a caller that waits for one: any JSON.
        #[schema(value_type = Option<serde_json::Value>, example = json!({"closed": true}))]
        reply: Option<serde_json::Value>,
    },
    /// It failed and is due again, by the queue's policy or after a delay; after its last attempt
    /// it is a dead letter.
    #[schema(title = "Retry")]
    Retry {
        /// The delay in milliseconds. Default: by the policy of the queue.
        #[serde(default, deserialize_with = "input::whole_or_none")]
        #[schema(minimum = 0, maximum = 4294967295000u64, example = 60000)]
        delay_ms: Option<u64>,
        /// Why it failed, for the record.
        #[schema(max_length = 4096, example = "the bank is closed")]
        reason: Option<String>,
    },
    /// It is due again after a delay; the attempt does not count.
    #[schema(title = "Snooze")]
    Snooze {
        /// The delay in milliseconds.
        #[serde(deserialize_with = "input::whole")]
        #[schema(minimum = 0, maximum = 4294967295000u64, example = 60000)]
        delay_ms: u64,
    },
    /// It is ready again at once, at its place; the attempt does not count.
    #[schema(title = "Release")]
    Release {},
    /// It becomes a dead letter.
    #[schema(title = "Bury")]
    Bury {
        /// Why, for the record.
        #[schema(max_length = 4096, example = "no such order")]
        reason: Option<String>,
    },
    /// It is dropped as no longer useful.
    #[schema(title = "Discard")]
    Discard {
        /// Why, for the record.
        #[schema(max_length = 4096, example = "the order is paid")]
        reason: Option<String>,
    },
}

/// What [`Settlement`] describes, as it is read: a reply stays as it was written, which no enum of
/// serde with a tag allows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettlementFields {
    outcome: Kind,
    #[serde(default, deserialize_with = "any_json")]
    reply: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "input::whole_or_none")]
    delay_ms: Option<u64>,
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Ack,
    Retry,
    Snooze,
    Release,
    Bury,
    Discard,
}

/// The longest reason, in characters.
const REASON_LEN_MAX: usize = 4_096;

fn reason(reason: Option<String>) -> Result<Option<String>> {
    let len = reason.as_ref().map_or(0, |reason| reason.chars().count());
    if len <= REASON_LEN_MAX {
        Ok(reason)
    } else {
        Err(Problem::invalid(format!(
            "the reason has {len} characters; it must have at most {REASON_LEN_MAX}"
        )))
    }
}

fn delay(delay_ms: u64) -> Result<Duration> {
    if delay_ms <= SPAN_MS_MAX {
        Ok(Duration::from_millis(delay_ms))
    } else {
        Err(Problem::invalid(format!(
            "delay_ms is {delay_ms}; it must be at most {SPAN_MS_MAX}"
        )))
    }
}

fn unprocessable(what: &str) -> Problem {
    let text = format!("the body does not have the described form: {what}");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", text)
}

impl SettlementFields {
    /// Returns the outcome, and the reply to a caller.
    pub(super) fn outcome(self) -> Result<(LeaseOutcome, Option<Box<RawValue>>)> {
        let kind = self.outcome;
        let fields = [
            ("reply", self.reply.is_some(), kind == Kind::Ack),
            (
                "delay_ms",
                self.delay_ms.is_some(),
                matches!(kind, Kind::Retry | Kind::Snooze),
            ),
            (
                "reason",
                self.reason.is_some(),
                matches!(kind, Kind::Retry | Kind::Bury | Kind::Discard),
            ),
        ];
        for (name, is_given, is_its) in fields {
            if is_given && !is_its {
                return Err(unprocessable(&format!(
                    "this outcome has no field `{name}`"
                )));
            }
        }
        let after = self.delay_ms.map(delay).transpose()?;
        let reason = reason(self.reason)?;
        let outcome = match kind {
            Kind::Ack => LeaseOutcome::Ack,
            Kind::Retry => LeaseOutcome::Retry { after, reason },
            Kind::Snooze => LeaseOutcome::Snooze(
                after.ok_or_else(|| unprocessable("missing field `delay_ms`"))?,
            ),
            Kind::Release => LeaseOutcome::Release,
            Kind::Bury => LeaseOutcome::Bury(reason),
            Kind::Discard => LeaseOutcome::Discard(reason),
        };
        Ok((outcome, self.reply))
    }
}
