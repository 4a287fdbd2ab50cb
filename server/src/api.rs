//! Types of queues, events, dead letters and records, as `/v1` returns and commands show them from any
//! source.

mod audit;
mod bulk;
mod listed;
mod node;
mod page;
mod schedule;

use std::collections::BTreeMap;
use std::ops::Deref;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duly::Bus;
use duly::admin::QueueStats;
use duly::dead_letters::DeadLetter;
use duly::records::Record;
use duly::store::Control;
use duly::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::overview::QueueSummary;

pub use self::audit::AuditView;
pub use self::bulk::{ChangedEvent, ChangedEvents, Done, ErasedEvents, Purged, ReplayedRecords};
pub use self::listed::ListedEvent;
pub use self::node::{NodeView, node_id};
pub use self::page::{
    AuditPage, DeadPage, EventPage, NodeList, Overview, RecordPage, SchedulePage,
};
pub use self::schedule::{Instant, Run, ScheduleView};

/// The events of a queue by state, and its settings.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct QueueView {
    /// Whether it has had an event or a setting. A queue exists by use, so one without is empty.
    #[schema(example = true)]
    pub exists: bool,
    /// The events that wait for their due time.
    #[schema(minimum = 0, example = 12)]
    pub scheduled: usize,
    /// The events that are due and wait for a consumer.
    #[schema(minimum = 0, example = 3)]
    pub ready: usize,
    /// The events that a consumer has.
    #[schema(minimum = 0, example = 1)]
    pub leased: usize,
    /// The dead letters.
    #[schema(minimum = 0, example = 0)]
    pub dead: usize,
    /// Since when the oldest ready event is ready, or due if nobody has taken it, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub oldest_ready_ms: Option<u64>,
    /// Whether it is paused.
    #[schema(example = false)]
    pub paused: bool,
    /// The most starts in a second; absent if there is no limit.
    #[schema(example = 10.0)]
    pub rate: Option<f64>,
    /// The most handlers at once on each node; absent if each node has its own number.
    #[schema(minimum = 0, maximum = 65535, example = 16)]
    pub workers: Option<u16>,
    /// The number of buckets of new events; absent if it is the default.
    #[schema(minimum = 1, maximum = 1024, example = 1)]
    pub buckets: Option<u16>,
}

impl QueueView {
    /// The view of a queue; `exists`: it has had an event or a setting.
    pub fn new(exists: bool, stats: QueueStats, control: &Control) -> Self {
        Self {
            exists,
            scheduled: stats.scheduled,
            ready: stats.ready,
            leased: stats.leased,
            dead: stats.dead,
            oldest_ready_ms: stats.oldest_ready.map(Timestamp::as_millis),
            paused: control.paused,
            rate: control.rate,
            workers: control.workers,
            buckets: control.buckets,
        }
    }
}

/// A queue of an overview.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct NamedQueue {
    /// The name.
    #[schema(example = "close")]
    pub queue: String,
    /// Its events and settings.
    #[serde(flatten)]
    pub view: QueueView,
    /// The attempts and events that ended in the last whole minute; absent if it is not known.
    #[schema(minimum = 0, example = 25)]
    pub ended: Option<u64>,
    /// Why its events could not be counted: their numbers are 0 then, and not known. Absent if they were.
    #[schema(example = "no response within 2s")]
    pub uncounted: Option<String>,
}

impl NamedQueue {
    /// The view of a queue under a name within its namespace, or its whole one.
    pub fn new(queue: String, summary: &QueueSummary) -> Self {
        let QueueSummary { stats, control, .. } = summary;
        let (stats, uncounted) = match stats {
            Ok(stats) => (*stats, None),
            Err(error) => (QueueStats::default(), Some(error.to_string())),
        };
        Self {
            queue,
            view: QueueView::new(true, stats, control),
            ended: summary.ended,
            uncounted,
        }
    }
}

/// A step of a forecast.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ForecastStep {
    /// Its end, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225660000u64)]
    pub until_ms: u64,
    /// How many events fall due in it.
    #[schema(minimum = 0, example = 25)]
    pub events: usize,
}

/// An event that is not over. A command also shows one that is over, whose attempts and payload are
/// not known any more, and one whose payload it cannot decrypt.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct EventView {
    /// Its id.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub id: String,
    /// Its state: scheduled, ready, leased or dead.
    #[schema(example = "scheduled")]
    pub state: String,
    /// When it is due, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub due_ms: u64,
    /// The attempts that are left.
    #[schema(minimum = 0, maximum = 65535, example = 16, value_type = u16)]
    pub attempts_left: Option<u16>,
    /// When it expires, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767312000000u64)]
    pub expires_ms: Option<u64>,
    /// Its key.
    #[schema(example = "customer:8")]
    pub key: Option<String>,
    /// Its headers.
    #[schema(example = json!({"shop": "a"}))]
    pub headers: BTreeMap<String, String>,
    /// Its payload, in base64.
    #[schema(example = "eyJvcmRlciI6N30=", value_type = String)]
    pub payload_base64: Option<String>,
}

/// What became of an event, and why.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Explanation {
    /// Its id.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub id: String,
    /// Its state.
    #[schema(example = "scheduled")]
    pub state: Option<String>,
    /// When it is or was due, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub due_ms: Option<u64>,
    /// The counted attempts that have ended.
    #[schema(minimum = 0, maximum = 65535, example = 1)]
    pub tries: u16,
    /// The explanation, for people.
    #[schema(example = "scheduled: it waits for its due time")]
    pub text: String,
    /// What to do, if something is to be done.
    #[schema(example = json!([]))]
    pub advice: Vec<String>,
}

/// A dead letter.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct DeadView {
    /// Its id.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub id: String,
    /// When it died, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub died_ms: Option<u64>,
    /// Its counted attempts.
    #[schema(minimum = 0, maximum = 65535, example = 16)]
    pub tries: u16,
    /// Its key.
    #[schema(example = "customer:8")]
    pub key: Option<String>,
    /// Why its last attempt failed, for programs.
    #[schema(example = "failed")]
    pub cause: Option<String>,
    /// The error of its last attempt.
    #[schema(example = "no such order")]
    pub error: Option<String>,
    /// Its payload, in base64; absent if it cannot be decrypted.
    #[schema(example = "eyJvcmRlciI6N30=")]
    pub payload_base64: Option<String>,
}

/// How an attempt or an event ended.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct RecordView {
    /// The event.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub id: String,
    /// The number of the attempt, from 1; 0 if none had begun.
    #[schema(minimum = 0, maximum = 65535, example = 1)]
    pub attempt: u16,
    /// How it ended.
    #[schema(example = "acked")]
    pub outcome: String,
    /// Why it failed, if it did, for programs.
    #[schema(example = "failed")]
    pub cause: Option<String>,
    /// The error of the consumer.
    #[schema(example = "the bank is closed")]
    pub error: Option<String>,
    /// The key of the event.
    #[schema(example = "customer:8")]
    pub key: Option<String>,
    /// When the attempt was due, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub due_ms: u64,
    /// When it was leased, in milliseconds since the epoch; absent if it was not.
    #[schema(minimum = 0, example = 1767225600001u64)]
    pub leased_ms: Option<u64>,
    /// When it ended, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600025u64)]
    pub ended_ms: u64,
    /// Who did it, if it was an operation on a dead letter.
    #[schema(example = "ann")]
    pub actor: Option<String>,
    /// The node that leased the attempt: of a consumer over HTTP its server. Absent if none did.
    #[schema(example = "9f3c51d20b7e4a68")]
    pub node: Option<String>,
}

impl From<Record> for RecordView {
    fn from(record: Record) -> Self {
        let leased_us = record.stages.fetched_us;
        Self {
            id: record.id.to_string(),
            attempt: record.attempt,
            outcome: record.outcome.as_str().to_owned(),
            cause: record.cause.map(|cause| cause.as_str().to_owned()),
            error: record.error,
            key: record.key,
            due_ms: record.due.as_millis(),
            leased_ms: (leased_us > 0).then_some(leased_us / 1_000),
            ended_ms: record.stages.finished_us / 1_000,
            actor: record.by,
            node: (record.node.0 > 0).then(|| record.node.to_string()),
        }
    }
}

impl Deref for NamedQueue {
    type Target = QueueView;

    fn deref(&self) -> &QueueView {
        &self.view
    }
}

impl From<&duly::admin::ForecastStep> for ForecastStep {
    fn from(step: &duly::admin::ForecastStep) -> Self {
        Self {
            until_ms: step.until.as_millis(),
            events: step.events,
        }
    }
}

/// Returns the explanation with its advice as commands: whoever reads it here writes no Rust.
fn in_a_shell(explained: &duly::explain::Explanation) -> String {
    let mut text = explained.to_string();
    for (rust, command) in explained.advice().iter().zip(explained.commands()) {
        text = text.replacen(rust, &command, 1);
    }
    text
}

impl From<&duly::explain::Explanation> for Explanation {
    fn from(explained: &duly::explain::Explanation) -> Self {
        Self {
            id: explained.id.to_string(),
            state: explained.state.map(|state| state.as_str().to_owned()),
            due_ms: explained.due.map(Timestamp::as_millis),
            tries: explained.tries,
            text: in_a_shell(explained),
            advice: explained.commands(),
        }
    }
}

impl DeadView {
    /// The view of a dead letter of a bus, with its payload if the bus can decrypt it.
    pub fn new(bus: &Bus, letter: &DeadLetter) -> Self {
        let opened = bus.keys().open(letter.id, &letter.queue, &letter.payload);
        Self {
            id: letter.id.to_string(),
            died_ms: letter.died.map(Timestamp::as_millis),
            tries: letter.tries,
            key: letter.key.clone(),
            cause: letter.cause().map(|cause| cause.as_str().to_owned()),
            error: letter.error().map(str::to_owned),
            payload_base64: opened.ok().map(|opened| STANDARD.encode(&opened.value)),
        }
    }
}
