//! Pages of lists, as `/v1` returns them and commands read them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{AuditView, DeadView, ListedEvent, NamedQueue, NodeView, RecordView, ScheduleView};

/// A page of queues with their counts.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Overview {
    /// The queues, sorted by name; there may be fewer than the limit although there are more.
    pub items: Vec<NamedQueue>,
    /// The `after` of the next page; absent after the last one.
    #[schema(example = "close")]
    pub next: Option<String>,
    /// How many nodes have handlers for queues of the namespace. Clients over HTTP are none.
    #[schema(minimum = 0, example = 2)]
    pub nodes: usize,
    /// The store's time, by which events are ready, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub now_ms: u64,
}

/// A page of events.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct EventPage {
    /// The events, the first due first. There may be fewer than the limit, or none, although `next`
    /// is there: a request scans about 10,000 events, and `next` is where it stopped.
    pub items: Vec<ListedEvent>,
    /// How many events were scanned for it, whether they match or not.
    #[schema(minimum = 0, example = 25)]
    pub scanned: usize,
    /// Whether the scan stopped before the last event: later pages may have events that are due
    /// earlier.
    #[schema(example = false)]
    pub partial: bool,
    /// The `after` of the next page; absent after the last one.
    #[schema(example = "~1767225600000/01KBKSY8Q3X4H1W9V0T5RZ7M2C/shop.close")]
    pub next: Option<String>,
}

/// A page of dead letters.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct DeadPage {
    /// The dead letters, by id. A page ends after 16 MiB of payloads, so there may be fewer than the
    /// limit although `next` is there.
    pub items: Vec<DeadView>,
    /// The `after` of the next page; absent after the last one.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub next: Option<String>,
}

/// A page of records.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct RecordPage {
    /// The records. There may be fewer than the limit, or none, although `next` is there: a request
    /// with a filter looks at 64,000 records of the queue at most, and `next` is where it stopped.
    pub items: Vec<RecordView>,
    /// The `after` of the next page; absent after the last one.
    #[schema(example = "1767225600000000-7-01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub next: Option<String>,
    /// The `after` that finds later records, also after the last page; absent before the first
    /// record.
    #[schema(example = "1767225600000000-7-01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub end: Option<String>,
}

/// A page of the audit.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct AuditPage {
    /// The lines, the newest first. There may be fewer than the limit, or none, although `next` is
    /// there: those of queues that the token does not administer are left out, and those of schedules
    /// unless it administers all queues.
    pub items: Vec<AuditView>,
    /// The `before` of the next page; absent after the last one.
    #[schema(example = "1767225600000-01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub next: Option<String>,
}

/// A page of schedules.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct SchedulePage {
    /// The schedules, sorted by name. A page ends after 16 MiB of payloads, so there may be fewer than
    /// the limit although `next` is there.
    pub items: Vec<ScheduleView>,
    /// The `after` of the next page; absent after the last one.
    #[schema(example = "nightly")]
    pub next: Option<String>,
}

/// Nodes.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct NodeList {
    /// The nodes, in the order of their ids, at most 1,000. Clients over HTTP are none.
    pub items: Vec<NodeView>,
}
