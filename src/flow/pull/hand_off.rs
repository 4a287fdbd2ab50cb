//! Leased events on their way to their caller: if it is gone, they are handed back.

use std::sync::Arc;

use crate::core::pull::{PullInput, PulledEvent};
use crate::error::Result;
use crate::event::Envelope;
use crate::flow::pull::{PullMessage, Pulls};

/// Leased events; dropped before they are taken, they are handed back.
pub(super) struct HandOff {
    events: Vec<PulledEvent<Arc<Envelope>>>,
    pulls: Arc<Pulls>,
}

impl HandOff {
    pub(super) fn new(events: Vec<PulledEvent<Arc<Envelope>>>, pulls: Arc<Pulls>) -> Self {
        Self { events, pulls }
    }

    /// Takes the events: they are the caller's now, and their attempts have started.
    ///
    /// # Errors
    ///
    /// When that could not be recorded; they are handed back.
    pub(super) fn take(mut self) -> Result<Vec<PulledEvent<Arc<Envelope>>>> {
        for events in self
            .events
            .chunk_by(|one, next| one.bucket.queue == next.bucket.queue)
        {
            let Some(first) = events.first() else {
                continue;
            };
            let deliveries: Vec<_> = events.iter().map(|event| &event.delivery).collect();
            self.pulls
                .store
                .starting(&first.bucket.queue, &deliveries)?;
        }
        Ok(std::mem::take(&mut self.events))
    }
}

impl Drop for HandOff {
    fn drop(&mut self) {
        for event in std::mem::take(&mut self.events) {
            let bucket = event.bucket.clone();
            let back = PullInput::Returned(bucket, vec![event.release()]);
            self.pulls.add(PullMessage::Input(back));
        }
    }
}
