//! The options of an event, whatever its payload.

use std::time::Duration;

use crate::codec::Codec;
use crate::core::op::Unique;
use crate::event::{EventId, Headers, LatePolicy};
use crate::store::Durability;
use crate::time::{Timestamp, When};

/// The options of an event, apart from its payload; `None`: that of its queue.
#[derive(Debug, Default)]
pub(in crate::bus) struct EventOptions {
    pub(in crate::bus) id: Option<EventId>,
    pub(in crate::bus) when: Option<When>,
    pub(in crate::bus) key: Option<String>,
    pub(in crate::bus) unique: Option<(String, Unique)>,
    pub(in crate::bus) unique_for: Option<Duration>,
    pub(in crate::bus) attempts: Option<u16>,
    pub(in crate::bus) expires_after: Option<Duration>,
    /// A time instead of a span, which does not depend on the clock of this process.
    pub(in crate::bus) expires: Option<Timestamp>,
    pub(in crate::bus) late: Option<LatePolicy>,
    pub(in crate::bus) spread: Option<Duration>,
    pub(in crate::bus) headers: Headers,
    pub(in crate::bus) durability: Option<Durability>,
    pub(in crate::bus) keep_payload: Option<bool>,
    pub(in crate::bus) codec: Option<Codec>,
    /// The codec that has encoded the payload before, whose bytes it is now.
    pub(in crate::bus) encoded_by: Option<Codec>,
    pub(in crate::bus) version: Option<u32>,
}
