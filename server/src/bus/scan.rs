//! Scans of a queue: its ready jobs and its dead ones, without their bodies.

use duly::__server::payloads;
use duly::admin::{EventCursor, StoredEvent};
use duly::event::State;
use duly::records::Page;
use duly::time::Timestamp;
use duly::{Error, ErrorKind, EventId, Queue, Result};

use super::{Body, FoundJob, Pool};

/// The most events that a scan of a queue reads.
const SCAN_MAX: usize = 10_000;
/// The most dead events that are listed.
pub(crate) const DEAD_MAX: usize = 10_000;
/// The most events that are read for a ready one, where those before it wait for their time.
const FIRST_SCAN_MAX: usize = 1_000_000;
/// The size of a page of events.
const PAGE: usize = 1_000;

impl Pool {
    /// Returns the job of a queue that has been ready for longest.
    ///
    /// A store lists events in an order of its own, so of a queue with more than [`SCAN_MAX`] jobs
    /// it is the one among those.
    pub(crate) async fn head(&self, queue: &Queue<Body>) -> Result<Option<FoundJob>> {
        let (ready, now) = (self.stats(queue).await?.ready, self.now());
        let mut best: Option<(Timestamp, EventId)> = None;
        let most = (SCAN_MAX, FIRST_SCAN_MAX);
        let whole = scan_ready(queue, ready, now, most, |event, has_expired| {
            let candidate = (event.since.unwrap_or(event.due), event.id);
            if !has_expired && best.is_none_or(|best| candidate < best) {
                best = Some(candidate);
            }
        })
        .await?;
        match best {
            Some((_, id)) => self.get(queue, id).await,
            None if whole => Ok(None),
            None => Err(Error::new(
                ErrorKind::Unavailable,
                format!("no ready job is among the first {FIRST_SCAN_MAX} of the queue"),
            )),
        }
    }

    /// Counts the ready jobs of a queue without those that have expired, which a store keeps until
    /// a poll passes them; of a queue with more than [`PAGE`] jobs without those among that many.
    pub(crate) async fn size(&self, queue: &Queue<Body>) -> Result<usize> {
        let ready = self.stats(queue).await?.ready;
        let mut expired = 0;
        let most = (PAGE, PAGE);
        scan_ready(queue, ready, self.now(), most, |_, has_expired| {
            expired += usize::from(has_expired);
        })
        .await?;
        Ok(ready.saturating_sub(expired))
    }

    /// Returns dead jobs, the first that died first.
    pub(crate) async fn dead(&self, queue: &Queue<Body>, limit: usize) -> Result<Vec<EventId>> {
        let mut dead = Vec::new();
        let mut place = None;
        loop {
            let letters = self.bus.dead_letters().queue(queue.name()).limit(PAGE);
            let page = match payloads::dead_ids(letters.after(place)).await {
                Ok(page) => page,
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            dead.extend(page.items);
            place = page.next;
            if place.is_none() || dead.len() >= DEAD_MAX {
                break;
            }
        }
        dead.sort_unstable();
        Ok(dead.into_iter().take(limit).map(|(_, id)| id).collect())
    }

    /// Removes the jobs of a page that were ready at a time; returns where the next page begins.
    pub(crate) async fn remove_ready(
        &self,
        queue: &Queue<Body>,
        then: Timestamp,
        after: Option<EventCursor>,
    ) -> Result<Option<EventCursor>> {
        let page = page_of(queue, after).await?;
        for event in page.items.into_iter().filter(|event| is_ready(event, then)) {
            // One that was leased meanwhile is not ready any more, and stays.
            let _ = event.cancel().await?;
        }
        Ok(page.next)
    }
}

/// Reads a page of the events of a queue, without their payloads.
async fn page_of(
    queue: &Queue<Body>,
    after: Option<EventCursor>,
) -> Result<Page<StoredEvent, EventCursor>> {
    let events = queue.events().limit(PAGE).after(after);
    payloads::without_payloads(events).page().await
}

/// Whether an event is ready: in the ready list, or due and not moved there yet.
fn is_ready(event: &StoredEvent, now: Timestamp) -> bool {
    match event.state {
        State::Ready => true,
        State::Scheduled => event.due <= now,
        _ => false,
    }
}

/// Visits `ready` ready events among the first ones of a queue, each with whether it has expired;
/// returns whether these were all. There is a bound for all and one for the first that has not
/// expired.
async fn scan_ready(
    queue: &Queue<Body>,
    mut ready: usize,
    now: Timestamp,
    (most, first_most): (usize, usize),
    mut visit: impl FnMut(&StoredEvent, bool),
) -> Result<bool> {
    let (mut seen, mut place, mut has_one) = (0, None, false);
    while ready > 0 {
        if seen >= if has_one { most } else { first_most } {
            return Ok(false);
        }
        let page = page_of(queue, place).await?;
        // A page without events counts as well.
        seen += page.items.len() + 1;
        for event in page.items.iter().filter(|event| is_ready(event, now)) {
            let has_expired = event.expires.is_some_and(|expires| expires <= now);
            has_one |= !has_expired;
            visit(event, has_expired);
            ready = ready.saturating_sub(1);
        }
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    Ok(true)
}
