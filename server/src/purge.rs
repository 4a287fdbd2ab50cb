//! Purges: cancels the events of a queue that wait, some at a time.

use duly::admin::{ChangedPage, EventAction, EventCursor};
use duly::{Bus, QueueName, Result};

/// About the most events of one step.
pub const STEP: usize = 1_000;

/// Cancels about [`STEP`] events of a queue that wait, of those behind `after`: as many as are on the next
/// page that has one.
///
/// # Errors
///
/// As the store's: a queue that is not known, a store that does not respond.
pub async fn step(
    bus: &Bus,
    queue: &QueueName,
    mut after: Option<EventCursor>,
) -> Result<ChangedPage> {
    loop {
        let events = bus.events().queue(queue).limit(STEP).after(after);
        let page = events.change_page(EventAction::Cancel).await?;
        // A page may have dead letters alone.
        if page.matched > 0 || page.next.is_none() {
            return Ok(page);
        }
        after = page.next;
    }
}
