//! Client-side validation: refuses what no server would accept, before anything is sent.

use crate::core::engine::{bounded, check_bytes};
use crate::core::op::NewEvent;
use crate::error::{Error, Result};
use crate::event::BucketKey;
use crate::time::When;

/// Refuses a push that no server would accept.
pub(super) fn check_push(bucket: &BucketKey, events: &[NewEvent]) -> Result<()> {
    bounded("events", events.len())?;
    check_bytes(events.iter().map(|event| event.envelope.payload.len()))?;
    for event in events {
        let envelope = &event.envelope;
        if envelope.queue != bucket.queue || envelope.bucket() != bucket.bucket {
            return Err(Error::invalid(format!(
                "event {} of queue {} belongs to bucket {}, it was pushed to {bucket}",
                envelope.id,
                envelope.queue,
                envelope.bucket(),
            )));
        }
        envelope.check(usize::MAX)?;
        checked(event.when)?;
    }
    Ok(())
}

/// Refuses a delay that is too long; absolute times are checked against the server's clock.
pub(super) fn checked(when: When) -> Result<()> {
    match when {
        When::At(_) => Ok(()),
        _ => when.checked(crate::time::Timestamp::EPOCH).map(drop),
    }
}
