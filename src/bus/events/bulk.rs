//! Changes of many events, a page at a time: what a sweep of a dashboard, a command and a request have
//! in common. The caller sets the pace by the size of the pages.

use futures_util::StreamExt;

use crate::bus::events::{Events, StoredEvent};
use crate::bus::fan_out::in_order;
use crate::bus::scan::EventCursor;
use crate::core::op::{CancelOutcome, ChangeOutcome};
use crate::error::Result;
use crate::event::State;
use crate::time::When;

/// What is done to events that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventAction {
    /// They are cancelled.
    Cancel,
    /// They are due at this time; [`When::Now`] runs them.
    Reschedule(When),
}

/// What became of a page of events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChangedPage {
    /// How many events match and waited when the page was read.
    pub matched: u64,
    /// How many of them were changed: the others began to run, or ended, meanwhile.
    pub changed: u64,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<EventCursor>,
}

impl Events {
    /// Reads a page as [`page`](Self::page) does, and changes those of its events that wait; without
    /// an action it only counts them. What runs, dead letters, schedules and stored replies stay as they
    /// are.
    ///
    /// Pages are in the order of ids, which no change moves, so a sweep through all pages comes to each
    /// event once, and goes on behind any page by [`after`](Self::after). With
    /// [`pushed_until`](Self::pushed_until) it ends, however much is pushed meanwhile.
    ///
    /// # Errors
    ///
    /// As [`page`](Self::page), and for a delay that is too long. Some events of the page may have been
    /// changed; changing the page again is safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # use duly::admin::EventAction;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// queue.push_many(0..250, Duration::from_secs(1800)).await?;
    ///
    /// let (mut cancelled, mut after) = (0, None);
    /// loop {
    ///     let page = queue.events().limit(100).after(after).change_page(EventAction::Cancel).await?;
    ///     cancelled += page.changed;
    ///     after = page.next;
    ///     if after.is_none() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(cancelled, 250);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn change_page(self, action: impl Into<Option<EventAction>>) -> Result<ChangedPage> {
        let action = match action.into() {
            Some(EventAction::Reschedule(when)) => {
                Some(EventAction::Reschedule(when.checked(self.inner.now())?))
            }
            action => action,
        };
        let page = self.page().await?;
        let waits = |event: &&StoredEvent| matches!(event.state, State::Scheduled | State::Ready);
        // A schedule, or a reply, is none of the events that somebody means.
        let is_meant = |event: &&StoredEvent| !event.queue.is_own();
        let waiting = page.items.iter().filter(waits).filter(is_meant);
        let waiting: Vec<_> = waiting.collect();
        let mut changed = 0;
        if let Some(action) = action {
            let changes = waiting.iter().map(|event| change(event, action));
            let mut changes = in_order(changes);
            while let Some(is_done) = changes.next().await {
                changed += u64::from(is_done?);
            }
        }
        Ok(ChangedPage {
            matched: waiting.len() as u64,
            changed,
            next: page.next,
        })
    }
}

/// Changes an event; returns whether it still could be.
async fn change(event: &StoredEvent, action: EventAction) -> Result<bool> {
    Ok(match action {
        EventAction::Cancel => matches!(
            event.cancel().await?,
            CancelOutcome::Cancelled | CancelOutcome::CancelledAfterAttempt
        ),
        EventAction::Reschedule(when) => matches!(
            event.reschedule(when).await?,
            ChangeOutcome::Changed(_) | ChangeOutcome::ChangedAfterAttempt(_)
        ),
    })
}
