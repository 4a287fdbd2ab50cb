//! Jobs as the contract shows them, and the marks on their events.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duly::EventId;
use duly::lease::{EncodedPayload, Leased};
use duly::time::Timestamp;
use serde::Serialize;

use super::check::Call;
use crate::bus::FoundJob;
use crate::http::reply;
use crate::job_id;

/// The header of an event whose job has a versioned id.
pub(super) const VERSION_MARK: &str = "lmstfy-version";
/// The header of an event that takes the place of another one: the id that clients know.
pub(super) const ID_MARK: &str = "lmstfy-id";
/// What stands before the name of an attribute that would be read as something else.
const ESCAPE: &str = "attr.";

/// A job of a response; its fields are in the order of their names.
#[derive(Debug, Serialize)]
pub(super) struct JobView {
    attributes: Option<BTreeMap<String, String>>,
    data: Option<String>,
    elapsed_ms: u64,
    job_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'static str>,
    namespace: String,
    queue: String,
    remain_tries: u16,
    ttl: u64,
}

impl JobView {
    /// A job that was consumed.
    pub(super) fn leased(
        namespace: &str,
        leased: &Leased<EncodedPayload>,
        known: EventId,
        now: Timestamp,
    ) -> Self {
        let event = leased.event();
        let queue = leased.queue().as_str();
        let queue = queue
            .strip_prefix(namespace)
            .and_then(|rest| rest.strip_prefix('.'));
        let headers = event.headers();
        let pushed = event.pushed();
        Self {
            attributes: attributes(headers),
            data: Some(STANDARD.encode(&event.payload.bytes)),
            elapsed_ms: elapsed_ms(known, pushed, now),
            job_id: shown(known, headers),
            msg: Some("new job"),
            namespace: namespace.to_owned(),
            queue: queue.unwrap_or_default().to_owned(),
            remain_tries: leased.attempts_left(),
            ttl: ttl_s(leased.expires(), now),
        }
    }

    /// A job that was looked at.
    pub(super) fn found(
        call: &Call<'_>,
        job: &FoundJob,
        known: EventId,
        remain_tries: u16,
    ) -> Self {
        let now = call.pool.now();
        let expires = job
            .expires
            .filter(|_| job.state != duly::event::State::Dead);
        Self {
            attributes: attributes(&job.headers),
            data: Some(STANDARD.encode(&job.body)),
            elapsed_ms: elapsed_ms(known, None, now),
            job_id: shown(known, &job.headers),
            msg: None,
            namespace: call.route.namespace.clone(),
            queue: call.route.queue.clone(),
            remain_tries,
            ttl: ttl_s(expires, now),
        }
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = headers.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

/// Returns the id that the mark of an event says clients know it by; whoever pushes to the store may
/// write one.
pub(super) fn marked(headers: &[(String, String)]) -> Option<EventId> {
    header(headers, ID_MARK).and_then(|id| id.parse().ok())
}

/// Returns the text of the id that clients know a job by.
pub(super) fn shown(known: EventId, headers: &[(String, String)]) -> String {
    let is_versioned = header(headers, VERSION_MARK).is_some();
    job_id::text(known, is_versioned)
}

/// Returns the milliseconds since a job was published.
fn elapsed_ms(id: EventId, pushed: Option<Timestamp>, now: Timestamp) -> u64 {
    let since = if id.tells_time() {
        Some(id.created())
    } else {
        pushed
    };
    let elapsed = since.map(|since| now.since(since));
    elapsed.map_or(0, |elapsed| {
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Returns the seconds until a job expires, rounded, and at least one; 0 is never.
fn ttl_s(expires: Option<Timestamp>, now: Timestamp) -> u64 {
    let Some(expires) = expires else {
        return 0;
    };
    let left = expires.since(now);
    let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    (left_ms.saturating_add(500) / 1_000).max(1)
}

/// Whether a header is one of `duly`, of a trace, or a mark of this module.
fn is_reserved(name: &str) -> bool {
    let prefixes = ["duly-", "lmstfy-", ESCAPE];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
        || name == duly::event::TRACE_HEADER
        || name == duly::event::TRACE_STATE_HEADER
}

/// Returns the header of an attribute: a handler in Rust reads it by the same name.
pub(super) fn attribute_header(name: String) -> String {
    if is_reserved(&name) {
        format!("{ESCAPE}{name}")
    } else {
        name
    }
}

fn attributes(headers: &[(String, String)]) -> Option<BTreeMap<String, String>> {
    let attributes = headers.iter().filter_map(|(name, value)| {
        let name = match name.strip_prefix(ESCAPE) {
            Some(name) => name,
            None if is_reserved(name) => return None,
            None => name,
        };
        Some((name.to_owned(), value.clone()))
    });
    let attributes: BTreeMap<_, _> = attributes.collect();
    Some(attributes).filter(|attributes| !attributes.is_empty())
}

/// The size of a queue, or of its dead letters.
#[derive(Serialize)]
struct SizeView<'a> {
    namespace: &'a str,
    queue: &'a str,
    size: usize,
}

/// Returns a response with a size.
pub(super) fn sized(call: &Call<'_>, size: usize) -> Response {
    let view = SizeView {
        namespace: &call.route.namespace,
        queue: &call.route.queue,
        size,
    };
    reply::json(StatusCode::OK, &view)
}
