//! Events in the forms of JSON: one to push, a pushed one, one that is looked up.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duly::__server::payloads;
use duly::time::{Timestamp, When};
use duly::{EventBuilder, EventId, Queue, Receipt, Unique};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::input::{self, any_json};
use super::problem::{Problem, Result};
use crate::api::EventView;
use crate::bus::{Body, FoundJob, Pool};
use crate::clock;

/// The longest key, name or value of a header, in characters: in bytes that is what a store takes.
const TEXT_LEN_MAX: usize = 256;
/// The most headers; the library adds some of its own.
const HEADERS_MAX: usize = 24;
/// What the names of headers begin with that mean something to the server.
const RESERVED: [&str; 2] = ["duly-", "lmstfy-"];
/// The longest span, in milliseconds: 136 years.
pub(super) const SPAN_MS_MAX: u64 = 4_294_967_295_000;

/// An event to push. Its payload is either `payload` or `payload_base64`; it is due at once, after
/// `delay_ms`, or at `due_ms`; its id is made by the server, or is `id`, or that of
/// `idempotency_key`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewEvent {
    /// The payload: any JSON.
    #[serde(default, deserialize_with = "any_json")]
    #[schema(value_type = Option<serde_json::Value>, example = json!({"order": 7}))]
    payload: Option<Box<RawValue>>,
    /// The payload in base64, if it is not JSON.
    #[schema(
        pattern = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$",
        max_length = 1398104,
        example = "aGVsbG8="
    )]
    payload_base64: Option<String>,
    /// The id, 26 characters of a ULID, made by the client: a push that is repeated with the same
    /// content changes nothing, and returns the event as a duplicate.
    #[schema(value_type = Option<String>, min_length = 26, max_length = 26,
        pattern = "^[0-7][0-9A-TV-Za-tv-z]{25}$", example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    id: Option<EventId>,
    /// A name that stands for the id: the same name means the same event, while that waits or runs,
    /// and then for a minute at least and a day at most: on Redis while it is among the last 10,000 that
    /// ended in its bucket, else among the last 100,000.
    #[schema(min_length = 1, max_length = 256, example = "close:7")]
    idempotency_key: Option<String>,
    /// The delay in milliseconds, counted from the push.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 4294967295000u64, example = 1800000)]
    delay_ms: Option<u64>,
    /// The due time in milliseconds since the epoch; a past one means at once.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, example = 1767225600000u64)]
    due_ms: Option<u64>,
    /// The key by which events are found.
    #[schema(min_length = 1, max_length = 256, example = "customer:8")]
    key: Option<String>,
    /// The key of which only one event waits or runs. In a queue of several buckets, only the bucket of
    /// the event is checked: that of the key, but with `id` or `idempotency_key` the one of the id.
    #[schema(min_length = 1, max_length = 256, example = "close:7")]
    unique: Option<String>,
    /// Whether an event that waits with the unique key is replaced. Default: it is kept.
    #[serde(default)]
    #[schema(example = false)]
    replace: bool,
    /// The most attempts. Default: that of the queue.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 1, maximum = 65535, example = 16)]
    attempts: Option<u16>,
    /// When it expires, in milliseconds from the push.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 1, maximum = 4294967295000u64, example = 86400000)]
    expires_ms: Option<u64>,
    /// The version of its payload, for a handler in Rust whose payload has versions. Default: 0.
    #[serde(default, deserialize_with = "input::whole_or_none")]
    #[schema(minimum = 0, maximum = 4294967295u64, example = 2)]
    version: Option<u32>,
    /// Whether its records keep its payload, so that it can be replayed. Default: that of the queue in
    /// the server's settings.
    keep_payload: Option<bool>,
    /// Its headers.
    #[serde(default)]
    #[schema(example = json!({"shop": "a"}))]
    headers: BTreeMap<String, String>,
}

fn within(name: &str, number: u64, (least, most): (u64, u64)) -> Result<Duration> {
    if (least..=most).contains(&number) {
        Ok(Duration::from_millis(number))
    } else {
        Err(Problem::invalid(format!(
            "{name} is {number}; it must be {least} to {most}"
        )))
    }
}

/// Checks the length of a text.
pub(super) fn text(name: &str, text: String, least: usize) -> Result<String> {
    let len = text.chars().count();
    if (least..=TEXT_LEN_MAX).contains(&len) {
        Ok(text)
    } else {
        Err(Problem::invalid(format!(
            "{name} has {len} characters; it must have {least} to {TEXT_LEN_MAX}"
        )))
    }
}

/// Returns the latest due time, in milliseconds since the epoch; the same for a whole day.
pub(super) fn latest_due_ms() -> u64 {
    const DAY_MS: u64 = 86_400_000;
    clock::now().as_millis() / DAY_MS * DAY_MS + SPAN_MS_MAX
}

/// Returns when something is due, of a delay or a time.
pub(super) fn when(delay_ms: Option<u64>, due_ms: Option<u64>) -> Result<Option<When>> {
    match (delay_ms, due_ms) {
        (None, None) => Ok(None),
        (Some(delay), None) => Ok(Some(When::After(within(
            "delay_ms",
            delay,
            (0, SPAN_MS_MAX),
        )?))),
        (None, Some(due)) => {
            within("due_ms", due, (0, latest_due_ms()))?;
            Ok(Some(When::At(Timestamp::from_millis(due))))
        }
        _ => Err(Problem::invalid(
            "there are delay_ms and due_ms; give one of them",
        )),
    }
}

/// Returns the body of a payload in one of its two forms.
pub(super) fn payload(json: Option<Box<RawValue>>, base64: Option<String>) -> Result<Body> {
    match (json, base64) {
        (Some(json), None) => Ok(Body::Json(json)),
        (None, Some(text)) => match STANDARD.decode(text) {
            Ok(bytes) => Ok(Body::Raw(bytes.into())),
            Err(error) => Err(Problem::invalid(format!(
                "payload_base64 is no base64: {error}"
            ))),
        },
        _ => Err(Problem::invalid(
            "an event has either payload or payload_base64",
        )),
    }
}

impl NewEvent {
    /// Builds the event.
    pub(super) fn build(self, queue: &Queue<Body>) -> Result<EventBuilder<Body>> {
        let body = payload(self.payload, self.payload_base64)?;
        let mut event = Pool::event(queue, body);
        if let Some(when) = when(self.delay_ms, self.due_ms)? {
            event = event.when(when);
        }
        event = match (self.id, self.idempotency_key) {
            (None, None) => event,
            (Some(id), None) => event.id(id),
            (None, Some(name)) => {
                let name = text("idempotency_key", name, 1)?;
                event.id(queue.id_for_name(&name))
            }
            _ => {
                return Err(Problem::invalid(
                    "an event has either id or idempotency_key",
                ));
            }
        };
        if let Some(key) = self.key {
            event = event.key(text("key", key, 1)?);
        }
        if let Some(unique) = self.unique {
            let on_taken = if self.replace {
                Unique::Replace
            } else {
                Unique::Keep
            };
            event = event.unique(text("unique", unique, 1)?, on_taken);
        }
        if let Some(attempts) = self.attempts {
            event = event.attempts(attempts);
        }
        if let Some(expires) = self.expires_ms {
            event = event.expires_after(within("expires_ms", expires, (1, SPAN_MS_MAX))?);
        }
        if let Some(version) = self.version {
            event = payloads::versioned(event, version);
        }
        if let Some(keep) = self.keep_payload {
            event = event.keep_payload(keep);
        }
        if self.headers.len() > HEADERS_MAX {
            return Err(Problem::invalid(format!(
                "{} headers; an event has at most {HEADERS_MAX}",
                self.headers.len()
            )));
        }
        for (name, value) in self.headers {
            let name = text("the name of a header", name, 1)?;
            if let Some(prefix) = RESERVED.iter().find(|prefix| begins_with(&name, prefix)) {
                return Err(Problem::invalid(format!(
                    "header {name}: names that begin with `{prefix}` are those of the server"
                )));
            }
            event = event.header(name, text("the value of a header", value, 0)?);
        }
        Ok(event)
    }
}

/// Returns whether a header is one of a prefix: names that differ in case alone are one to most.
fn begins_with(name: &str, prefix: &str) -> bool {
    let beginning = name.as_bytes().get(..prefix.len());
    beginning.is_some_and(|it| it.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// Returns the error of a push: ids and due times that the store's clock does not allow are a
/// conflict, as another day they would be right.
pub(super) fn not_pushed(error: duly::Error) -> Problem {
    let text = error.to_string();
    let problem = Problem::from(error);
    if text.contains(" ahead") && text.starts_with("the id ") {
        Problem::new(StatusCode::CONFLICT, "conflict", text)
    } else {
        problem
    }
}

/// A pushed event.
#[derive(Serialize, ToSchema)]
pub(super) struct PushedEvent {
    /// Its id.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    id: String,
    /// When it is due, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600000u64)]
    due_ms: u64,
    /// Whether it was there already; nothing was changed then.
    #[schema(example = false)]
    duplicate: bool,
}

impl From<&Receipt> for PushedEvent {
    fn from(receipt: &Receipt) -> Self {
        Self {
            id: receipt.id().to_string(),
            due_ms: receipt.due().as_millis(),
            duplicate: receipt.is_duplicate(),
        }
    }
}

impl From<FoundJob> for EventView {
    fn from(found: FoundJob) -> Self {
        Self {
            id: found.id.to_string(),
            state: found.state.as_str().to_owned(),
            due_ms: found.due.as_millis(),
            attempts_left: Some(found.attempts_left),
            expires_ms: found.expires.map(Timestamp::as_millis),
            key: found.key,
            headers: found.headers.into_iter().collect(),
            payload_base64: Some(STANDARD.encode(&found.body)),
        }
    }
}
