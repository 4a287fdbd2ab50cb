//! The options of an event, whatever its payload.

use std::time::Duration;

use crate::codec::Codec;
use crate::core::op::Unique;
use crate::event::{EventId, Headers, LatePolicy};
use crate::store::Durability;
use crate::time::When;

/// The options of an event, apart from its payload; `None`: that of its queue.
#[derive(Debug, Default)]
pub(super) struct EventOptions {
    pub(super) id: Option<EventId>,
    pub(super) when: Option<When>,
    pub(super) key: Option<String>,
    pub(super) unique: Option<(String, Unique)>,
    pub(super) unique_for: Option<Duration>,
    pub(super) attempts: Option<u16>,
    pub(super) expires_after: Option<Duration>,
    pub(super) late: Option<LatePolicy>,
    pub(super) spread: Option<Duration>,
    pub(super) headers: Headers,
    pub(super) durability: Option<Durability>,
    pub(super) keep_payload: Option<bool>,
    pub(super) codec: Option<Codec>,
}
