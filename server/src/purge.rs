//! Purges: cancels the events of a queue that wait, some at a time.

use std::fmt;
use std::str::FromStr;

use duly::admin::{EventAction, EventCursor};
use duly::time::Timestamp;
use duly::{Bus, QueueName, Result};

/// The largest step, in events.
pub const STEP: usize = 1_000;

/// A place in a purge, from which it goes on: what was pushed after its begin is none of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeCursor {
    began: Timestamp,
    after: EventCursor,
}

impl fmt::Display for PurgeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.began.as_millis(), self.after)
    }
}

impl FromStr for PurgeCursor {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let read = || {
            let (began, after) = text.split_once('/')?;
            let began = Timestamp::from_millis(began.parse().ok()?);
            let after = after.parse().ok()?;
            Some(Self { began, after })
        };
        read().ok_or("`after` is not a cursor of a purge; use `next` of the answer before")
    }
}

/// What a step of a purge did.
#[derive(Debug)]
pub struct PurgeStep {
    /// How many events were cancelled.
    pub cancelled: u64,
    /// Where the next step begins; `None` after the last one.
    pub next: Option<PurgeCursor>,
}

/// Reads a page of a queue behind `after`, and cancels those of its events that wait, about `limit` at
/// most; it may have none though there are more, as among many dead letters. The first step, without a
/// place, sets the time from which pushes are left alone.
///
/// # Errors
///
/// As the store's: a queue that is not known, a store that does not respond.
pub async fn step(
    bus: &Bus,
    queue: &QueueName,
    after: Option<PurgeCursor>,
    limit: usize,
) -> Result<PurgeStep> {
    let (began, after) = match after {
        Some(PurgeCursor { began, after }) => (began, Some(after)),
        None => (bus.store_time(), None),
    };
    let events = bus.events().queue(queue).pushed_until(began);
    let events = events.limit(limit).after(after);
    let page = events.change_page(EventAction::Cancel).await?;
    let next = page.next.map(|after| PurgeCursor { began, after });
    let cancelled = page.changed;
    Ok(PurgeStep { cancelled, next })
}
