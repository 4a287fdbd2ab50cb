//! The event of an occurrence: its payload and its options.

use crate::bus::payloads::EncodedValue;
use crate::bus::push::options::EventOptions;
use crate::bus::schedules::link::Link;
use crate::codec::Codec;
use crate::event::Occurrence;
use crate::time::When;

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
    let itself = || serde_json::to_vec(occurrence).unwrap_or_default();
    let value = EncodedValue {
        codec: Codec::Json,
        bytes: payload.map_or_else(itself, |json| json.as_bytes().to_vec()),
    };
    (value, options)
}
