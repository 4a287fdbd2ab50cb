//! What commands show, in the forms of `/v1`, whatever source it is from.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::records::{Cause, Outcome};
use duly::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A queue.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct QueueView {
    #[serde(default)]
    pub(crate) queue: String,
    pub(crate) scheduled: usize,
    pub(crate) ready: usize,
    pub(crate) leased: usize,
    pub(crate) dead: usize,
    pub(crate) oldest_ready_ms: Option<u64>,
    pub(crate) paused: bool,
    pub(crate) rate: Option<f64>,
    /// The attempts and events that ended in the last whole minute, if that is known; only of an
    /// overview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workers: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) buckets: Option<u16>,
}

/// Many queues at once.
#[derive(Debug, Default, Serialize)]
pub(crate) struct OverviewView {
    pub(crate) queues: Vec<QueueView>,
    /// Whether there are queues beyond the limit.
    pub(crate) has_more: bool,
    /// How many nodes have handlers for queues; clients over HTTP are none.
    pub(crate) nodes: usize,
}

/// A change of the settings of a queue; `Some(None)` removes a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueChange {
    pub(crate) paused: Option<bool>,
    pub(crate) rate: Option<Option<f64>>,
    pub(crate) workers: Option<Option<u16>>,
    pub(crate) buckets: Option<Option<u16>>,
}

/// A step of a forecast.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct StepView {
    pub(crate) until_ms: u64,
    pub(crate) events: usize,
}

/// An event that is not over.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct EventView {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) queue: String,
    pub(crate) state: String,
    pub(crate) due_ms: u64,
    pub(crate) attempts_left: Option<u16>,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) key: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    /// Absent if it cannot be decrypted, and when the event is over.
    pub(crate) payload_base64: Option<String>,
}

/// An explanation.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ExplanationView {
    pub(crate) id: String,
    pub(crate) state: Option<String>,
    pub(crate) due_ms: Option<u64>,
    pub(crate) tries: u16,
    pub(crate) text: String,
    pub(crate) advice: Vec<String>,
}

/// A dead letter.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct DeadView {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) queue: String,
    pub(crate) died_ms: Option<u64>,
    pub(crate) tries: u16,
    pub(crate) key: Option<String>,
    #[serde(default)]
    pub(crate) cause: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) payload_base64: Option<String>,
}

/// A record.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct RecordView {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) queue: String,
    pub(crate) attempt: u16,
    pub(crate) outcome: String,
    pub(crate) cause: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) due_ms: u64,
    pub(crate) leased_ms: Option<u64>,
    pub(crate) ended_ms: u64,
    pub(crate) actor: Option<String>,
}

/// A page, and where the next one begins.
#[derive(Debug, Deserialize)]
pub(crate) struct PageView<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<String>,
}

/// A filter of dead letters; an unset field matches everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeadFilter {
    pub(crate) queue: Option<String>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) cause: Option<Cause>,
    pub(crate) error: Option<String>,
    pub(crate) key: Option<String>,
}

/// A filter of records; an unset field matches everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordFilter {
    pub(crate) queue: Option<String>,
    pub(crate) id: Option<duly::EventId>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) cause: Option<Cause>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) key: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) newest_first: bool,
}

/// An event, and its queue if that is given; a server needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventPath<'a> {
    pub(crate) id: duly::EventId,
    pub(crate) queue: Option<&'a str>,
}

/// A change of an event that waits.
#[derive(Clone, Debug)]
pub(crate) enum EventChange {
    /// Due after a delay from now.
    After(Duration),
    /// Due at a time.
    At(Timestamp),
    /// Another payload, of JSON.
    Payload(Box<serde_json::value::RawValue>),
}

/// What is done with dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeadAction {
    /// They become ready, with all their attempts.
    Revive,
    /// They are removed for good.
    Drop,
}
