//! Changes of many events, a page at a time: what a sweep of a dashboard, a command and a request have
//! in common. The caller sets the pace by the size of the pages.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::StreamExt;

use crate::bus::events::{Events, StoredEvent};
use crate::bus::fan_out::in_order;
use crate::bus::program_audit::{ActionLine, target_in};
use crate::bus::scan::{EventCursor, SweepTime};
use crate::bus::state::program_actions::ProgramAction;
use crate::core::op::{CancelOutcome, ChangeOutcome};
use crate::error::Result;
use crate::event::State;
use crate::time::{Timestamp, When};

/// So many more events than the limit are changed with a page: a store may not be able to read fewer, and
/// those that are read again may have failed by then and wait once more.
const TOGETHER: usize = 8;

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
    /// How many events match and waited when the page was read, without those that already were as
    /// the action makes them.
    pub matched: u64,
    /// How many of them were changed, the limit or a few more at most: the others began to run, or
    /// ended, meanwhile.
    pub changed: u64,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<EventCursor>,
}

impl Events {
    /// Reads a page as [`page`](Self::page) does, and changes those of its events that wait; without
    /// an action it only counts them. What runs, dead letters, schedules and stored replies stay as they
    /// are.
    ///
    /// It changes at most [`limit`](Self::limit) events, or up to eight more where the store cannot read
    /// fewer: where it returns yet more, the next page begins with the rest. An event that is already
    /// so, as one that is due now or earlier for [`When::Now`], is left alone. On Redis, where an event
    /// that is changed may come again on a later page, a sweep that makes events due also leaves alone
    /// what has run since its first page and waits for its retry. So a sweep through all pages changes
    /// each event once. It goes on behind any page by [`after`](Self::after); with [`When::After`], all
    /// its events are due that long after its first page. With [`pushed_until`](Self::pushed_until) it
    /// ends, however much is pushed meanwhile.
    ///
    /// # Errors
    ///
    /// As [`page`](Self::page), and for a delay that is too long. Some events of the page may have been
    /// changed, also if this future is dropped; changing the page again is safe, at a price: one that
    /// was made due now, and has run and failed meanwhile, is made due again instead of at its retry.
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
        let sweep = self.after.as_ref().and_then(|place| place.sweep);
        let action = match action.into() {
            Some(EventAction::Reschedule(when)) => {
                let when = of_sweep(when, sweep, self.inner.now());
                Some(EventAction::Reschedule(when.checked(self.inner.now())?))
            }
            action => action,
        };
        let inner = Arc::clone(&self.inner);
        let limit = self.page_limit();
        let queues = self.queues.iter().map(|queue| queue.as_str());
        let (audited_by, target) = (self.audited_by, target_in(queues, "events"));
        let (page, last_read) = self.page_and_last_read().await?;
        // A schedule, or a reply, is none of the events that somebody means.
        let mut waiting = page.items;
        // A scan of Redis may find one twice, as when its hash grows between two reads.
        let mut known = HashSet::new();
        let mut is_first = |event: &StoredEvent| known.insert((event.queue.clone(), event.id));
        waiting.retain(|event| waits(event) && !event.queue.is_own() && is_first(event));
        let Some(action) = action else {
            return Ok(ChangedPage {
                matched: waiting.len() as u64,
                changed: 0,
                next: page.next,
            });
        };
        let now = inner.now();
        waiting.retain(|event| !is_so(event, action, now) && !has_run(event, action, sweep));
        let (mut matched, mut changed) = (0, 0);
        let found = waiting.len();
        let is_whole = found <= limit + TOGETHER;
        let limit = if is_whole { found } else { limit };
        let done = ProgramAction::new(action_of(action), target);
        let line = ActionLine::new(&inner, audited_by, done);
        let step = |event| line.step(change(event, action), |is_changed| *is_changed);
        let mut waiting = waiting.into_iter();
        while changed < limit && matched < found {
            let mut changes = in_order(waiting.by_ref().take(limit - changed).map(step));
            while let Some(is_changed) = changes.next().await {
                matched += 1;
                changed += usize::from(is_changed?);
            }
        }
        // A store that returns more than the limit has done so with its last page.
        let next = (matched < found).then_some(last_read).flatten();
        let sweep = match action {
            EventAction::Reschedule(When::At(due)) if due > now => Some(SweepTime::Due(due)),
            EventAction::Reschedule(_) => sweep.or(Some(SweepTime::Began(now))),
            EventAction::Cancel => None,
        };
        Ok(ChangedPage {
            matched: matched as u64,
            changed: changed as u64,
            next: next
                .or(page.next)
                .map(|place| EventCursor { sweep, ..place }),
        })
    }
}

/// Returns what the audit says of an action.
const fn action_of(action: EventAction) -> &'static str {
    match action {
        EventAction::Cancel => "events cancelled",
        EventAction::Reschedule(_) => "events rescheduled",
    }
}

/// Returns when the events of a sweep are due: a delay counts from its first page.
fn of_sweep(when: When, sweep: Option<SweepTime>, now: Timestamp) -> When {
    match (when, sweep) {
        (When::After(_), Some(SweepTime::Due(due))) => When::At(due),
        (When::After(delay), _) => When::At(now + delay),
        (When::Now | When::At(_), _) => when,
    }
}

fn waits(event: &StoredEvent) -> bool {
    matches!(event.state, State::Scheduled | State::Ready)
}

/// Returns whether an event that waits already is as an action makes it.
fn is_so(event: &StoredEvent, action: EventAction, now: Timestamp) -> bool {
    match action {
        EventAction::Cancel => false,
        EventAction::Reschedule(When::At(due)) if due > now => event.due == due,
        EventAction::Reschedule(_) => event.due <= now,
    }
}

/// Returns whether an event has run since the first page of a sweep that makes events due, or since
/// they were due by it, and waits for its next attempt: a scan of Redis may find it again.
fn has_run(event: &StoredEvent, action: EventAction, sweep: Option<SweepTime>) -> bool {
    let (Some(ended), Some(SweepTime::Due(since) | SweepTime::Began(since))) = (event.ended, sweep)
    else {
        return false;
    };
    action != EventAction::Cancel && ended >= since
}

/// Changes an event; returns whether it still could be.
async fn change(event: StoredEvent, action: EventAction) -> Result<bool> {
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
