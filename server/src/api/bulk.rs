//! Responses to requests that change, cancel, erase or replay events.

use duly::admin::ErasureStep;
use duly::records::ReplayReport;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The due time of a changed event.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ChangedEvent {
    /// When it is due, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub due_ms: u64,
}

/// What a purge did.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Purged {
    /// How many events were cancelled; it may be 0 though there are more.
    #[schema(minimum = 0, example = 12)]
    pub cancelled: u64,
    /// The `after` of the next request; absent after the last one.
    pub next: Option<String>,
}

/// How many dead letters were changed.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Done {
    /// How many of the ids were dead letters.
    #[schema(minimum = 0, maximum = 1000, example = 1)]
    pub done: u64,
}

/// What became of a part of the events that a filter finds.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct ChangedEvents {
    /// How many events match and waited.
    #[schema(minimum = 0, example = 100)]
    pub matched: u64,
    /// How many of them were changed: the others began to run, or ended, meanwhile.
    #[schema(minimum = 0, example = 100)]
    pub changed: u64,
    /// The `pushed_until_ms` of the next request.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub pushed_until_ms: u64,
    /// The `after` of the next request; absent after the last one.
    pub next: Option<String>,
}

/// What a part of an erasure did; in a dry run, what it would do.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct ErasedEvents {
    /// How many events that waited were cancelled.
    #[schema(minimum = 0, example = 2)]
    pub cancelled: u64,
    /// How many dead letters were dropped.
    #[schema(minimum = 0, example = 1)]
    pub dropped: u64,
    /// How many events run: they stay; erase again when they have ended.
    #[schema(minimum = 0, example = 0)]
    pub running: u64,
    /// How many records lost their payload and their error text.
    #[schema(minimum = 0, example = 12)]
    pub records: u64,
    /// How many records could not be erased yet, or at all: those in the outboxes of Redis, which with a
    /// journal another erasure reaches a moment later, and those that cannot be read.
    #[schema(minimum = 0, example = 0)]
    pub unreached: u64,
    /// The `after` of the next request; absent after the last one.
    #[schema(example = "records")]
    pub next: Option<String>,
}

impl From<&ErasureStep> for ErasedEvents {
    fn from(step: &ErasureStep) -> Self {
        let report = step.report;
        Self {
            cancelled: report.cancelled,
            dropped: report.dropped,
            running: report.running,
            records: report.records,
            unreached: report.unreached,
            next: step.next.as_ref().map(ToString::to_string),
        }
    }
}

/// What became of a part of the records that a filter finds; in a dry run, what would become of it. Records
/// of attempts after which their event went on are in none of the counts.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct ReplayedRecords {
    /// How many events were pushed.
    #[schema(minimum = 0, example = 100)]
    pub pushed: u64,
    /// How many an earlier request under the same name had pushed; a dry run does not look.
    #[schema(minimum = 0, example = 0)]
    pub repeated: u64,
    /// How many records have no payload: their events did not keep it.
    #[schema(minimum = 0, example = 0)]
    pub without_payload: u64,
    /// How many payloads cannot be read, since the server has no key for them.
    #[schema(minimum = 0, example = 0)]
    pub unreadable: u64,
    /// The `until_ms` of the next request.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub until_ms: u64,
    /// The `after` of the next request; absent after the last one.
    #[schema(example = "1767225600000000-7-01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub next: Option<String>,
}

impl ReplayedRecords {
    /// The response to a part of a replay.
    #[must_use]
    pub fn new(report: ReplayReport, until_ms: u64, next: Option<String>) -> Self {
        Self {
            pushed: report.pushed,
            repeated: report.repeated,
            without_payload: report.without_payload,
            unreadable: report.unreadable,
            until_ms,
            next,
        }
    }
}
