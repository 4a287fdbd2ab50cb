//! Answers to requests that change or erase many events.

use duly::admin::ErasureStep;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
    /// How many records could not be erased yet, or at all: those in the outboxes of Redis. With a
    /// journal, another erasure reaches them a moment later.
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
            next: step.next.map(|next| next.to_string()),
        }
    }
}
