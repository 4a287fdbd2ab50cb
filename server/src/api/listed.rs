//! An event in a list.

use duly::admin::StoredEvent;
use duly::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An event in a list, without its payload.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ListedEvent {
    /// Its id.
    #[schema(example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C")]
    pub id: String,
    /// Its queue.
    #[schema(example = "close")]
    pub queue: String,
    /// Its state: scheduled, ready, leased or dead.
    #[schema(example = "scheduled")]
    pub state: String,
    /// When it is due, in milliseconds since the epoch.
    #[schema(minimum = 0, example = 1767225600000u64)]
    pub due_ms: u64,
    /// The counted attempts that have ended.
    #[schema(minimum = 0, maximum = 65535, example = 0)]
    pub tries: u16,
    /// When it was pushed, in milliseconds since the epoch; absent where that is unknown.
    #[schema(minimum = 0, example = 1767225000000u64)]
    pub pushed_ms: Option<u64>,
    /// Its key.
    #[schema(example = "customer:8")]
    pub key: Option<String>,
    /// The unique key that it was pushed with.
    #[schema(example = "close:7")]
    pub unique: Option<String>,
}

impl ListedEvent {
    /// The view of an event, of a queue by this name.
    pub fn new(queue: &str, event: &StoredEvent) -> Self {
        Self {
            id: event.id.to_string(),
            queue: queue.to_owned(),
            state: event.state.as_str().to_owned(),
            due_ms: event.due.as_millis(),
            tries: event.tries,
            pushed_ms: event.pushed.map(Timestamp::as_millis),
            key: event.key.clone(),
            unique: event.unique.clone(),
        }
    }
}
