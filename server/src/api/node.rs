//! A node: a process with handlers.

use duly::admin::NodeInfo;
use duly::records::NodeId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A process that has handlers for queues.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct NodeView {
    /// The node, as records name it.
    #[schema(example = "9f3c51d20b7e4a68")]
    pub id: String,
    /// The name of its machine or container; absent where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "web-3")]
    pub host: Option<String>,
    /// The queues that it has handlers for.
    #[schema(example = json!(["close"]))]
    pub queues: Vec<String>,
    /// The number of its last sign of life, of which a live node gives four a second. Of a process
    /// that has the store alone it is always 0.
    #[schema(minimum = 0, example = 1207)]
    pub beat: u64,
}

/// Reads the id of a node, as it is shown: 16 hexadecimal digits.
#[must_use]
pub fn node_id(text: &str) -> Option<NodeId> {
    let is_one = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_one.then(|| u64::from_str_radix(text, 16).ok());
    number.flatten().map(NodeId)
}

impl NodeView {
    /// Makes it of a node, with the names under which queues are seen; `None` if it has none of them.
    pub fn new(node: &NodeInfo, seen: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let queues = node.queues.iter().filter_map(|queue| seen(queue.as_str()));
        let queues: Vec<String> = queues.collect();
        (!queues.is_empty()).then(|| Self {
            id: node.id.to_string(),
            host: (!node.host.is_empty()).then(|| node.host.to_string()),
            queues,
            beat: node.beat,
        })
    }
}
