//! Purges: cancels the events of a queue that wait, some at a time.

use duly::event::State;
use duly::{Bus, CancelOutcome, QueueName, Result};
use futures_util::{StreamExt, stream};

/// The most events of one step.
pub const STEP: usize = 1_000;
/// How many events are cancelled at the same time.
const CANCELS_AT_ONCE: usize = 64;

/// What one step did.
#[derive(Clone, Copy, Debug)]
pub struct PurgeStep {
    /// How many events were seen; one may have begun meanwhile.
    pub seen: usize,
    /// How many of them were cancelled.
    pub cancelled: u64,
    /// Whether more events wait.
    pub has_more: bool,
}

/// Cancels events of a queue that wait, at most [`STEP`].
///
/// # Errors
///
/// As the store's: a queue that is not known, a store that does not respond.
pub async fn step(bus: &Bus, queue: &QueueName) -> Result<PurgeStep> {
    let mut done = PurgeStep {
        seen: 0,
        cancelled: 0,
        has_more: false,
    };
    for state in [State::Scheduled, State::Ready] {
        let limit = STEP - done.seen;
        if limit == 0 {
            done.has_more = true;
            break;
        }
        let page = bus.events().queue(queue).state(state).limit(limit);
        let page = page.page().await?;
        // A page of a store may have a few more than its limit.
        let taken = page.items.len().min(limit);
        done.seen += taken;
        done.has_more |= page.next.is_some() || page.items.len() > taken;
        let cancels = page.items.into_iter().take(taken);
        let cancels = cancels.map(|event| async move { event.cancel().await });
        let mut cancels = stream::iter(cancels).buffer_unordered(CANCELS_AT_ONCE);
        while let Some(cancelled) = cancels.next().await {
            let is_done = matches!(
                cancelled?,
                CancelOutcome::Cancelled | CancelOutcome::CancelledAfterAttempt
            );
            done.cancelled += u64::from(is_done);
        }
    }
    Ok(done)
}
