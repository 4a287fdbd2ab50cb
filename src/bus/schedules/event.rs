//! The event of an occurrence: its payload and its options.

use std::sync::Arc;

use crate::bus::inner::Inner;
use crate::bus::payloads::EncodedValue;
use crate::bus::push::options::EventOptions;
use crate::bus::queue_handle::QueueHandle;
use crate::bus::schedules::link::Link;
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::event::{Envelope, EventId, Occurrence};
use crate::schedule::ScheduleOptions;
use crate::time::When;

/// Rejects a payload of a schedule that may not be pushed, or that its handler in this program, if there
/// is one, could not read.
pub(super) fn check_payload(
    inner: &Arc<Inner>,
    name: &str,
    options: &ScheduleOptions,
) -> Result<()> {
    let Some(json) = options.payload_text() else {
        return Ok(());
    };
    let queue = QueueHandle::new(Arc::clone(inner), options.queue().clone());
    let id = EventId::for_name(&queue.name, name);
    let stored = queue.stored(id, value_of(json), None);
    let stored = stored.map_err(|error| Error::invalid(format!("schedule {name}: {error}")))?;
    let Some(check) = inner.checks.get(&queue.name) else {
        return Ok(());
    };
    let version = queue.options.version;
    let mut event = Envelope::new(id, queue.name.clone(), stored);
    event.version = version;
    check.decode(&inner.keys, version, &event).map_err(|why| {
        let queue = &queue.name;
        Error::invalid(format!(
            "schedule {name}: the handler of queue {queue} could not read its payload: {why}"
        ))
    })
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
