//! The event of an occurrence: its payload and its options.

use std::sync::Arc;

use crate::bus::inner::Inner;
use crate::bus::payloads::EncodedValue;
use crate::bus::push::options::EventOptions;
use crate::bus::queue_handle::QueueHandle;
use crate::bus::schedules::link::Link;
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::event::{EventId, Occurrence};
use crate::schedule::ScheduleOptions;
use crate::time::When;

/// Rejects a payload of a schedule that may not be pushed.
pub(super) fn check_payload(
    inner: &Arc<Inner>,
    name: &str,
    options: &ScheduleOptions,
) -> Result<()> {
    let Some(json) = options.payload_text() else {
        return Ok(());
    };
    let queue = QueueHandle::new(Arc::clone(inner), options.queue().clone());
    let stored = queue.stored(EventId::for_name(&queue.name, name), value_of(json), None);
    let wrong = |error: Error| Error::invalid(format!("schedule {name}: {error}"));
    stored.map(|_| ()).map_err(wrong)
}

fn value_of(json: &str) -> EncodedValue {
    EncodedValue {
        codec: Codec::Json,
        bytes: json.as_bytes().to_vec(),
    }
}

/// Returns the event of an occurrence: with the payload of its schedule, or the occurrence itself.
pub(super) fn event_of(
    link: &Link,
    occurrence: &Occurrence,
    when: When,
) -> (EncodedValue, EventOptions) {
    let options = EventOptions {
        when: Some(when),
        key: Some(link.name.clone()),
        headers: occurrence.headers(),
        ..EventOptions::default()
    };
    // The record of one that is passed over says why.
    let is_run = occurrence.skipped.is_none();
    let payload = link.options.payload_text().filter(|_| is_run);
    // An occurrence has texts and numbers alone, so it can be written.
    let itself = || value_of(&serde_json::to_string(occurrence).unwrap_or_default());
    let value = payload.map_or_else(itself, value_of);
    (value, options)
}
