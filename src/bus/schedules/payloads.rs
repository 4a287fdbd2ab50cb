//! The payloads that schedules will push, for the check of what is stored.

use std::sync::Arc;

use crate::bus::inner::Inner;
use crate::bus::schedules::event::event_of;
use crate::bus::schedules::occurrence_queue::queue_for;
use crate::bus::schedules::worker::read;
use crate::error::Result;
use crate::event::{Envelope, Occurrence, Payload};
use crate::time::When;

/// Returns the next events of the schedule whose link this is, as this process would push them: by
/// its options, and by those before a change that is not carried out yet.
pub(in crate::bus) fn next_events(inner: &Arc<Inner>, stored: &Envelope) -> Result<Vec<Envelope>> {
    let link = read(inner, stored)?;
    let (former, now) = (link.acting(), inner.now());
    let links = former.iter().chain([&link]).filter(|link| !link.removed);
    let events = links.map(|link| {
        let occurrence = Occurrence {
            schedule: link.name.clone(),
            instant: now,
            previous: link.last_before(now),
            missed: 0,
            skipped: None,
        };
        let (value, _) = event_of(link, &occurrence, When::Now);
        let queue = queue_for(inner, link, link.options.queue());
        let mut event = Envelope::new(stored.id, queue.name.clone(), Payload::from(value.bytes));
        event.version = queue.options.version;
        event
    });
    Ok(events.collect())
}
