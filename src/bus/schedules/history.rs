//! The outcomes of the occurrences of a schedule, also of those whose ids the store has forgotten: by
//! their records.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::records::Records;
use crate::bus::schedules::link::{Link, PushedOccurrences};
use crate::core::op::{CancelOutcome, Snapshot, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, EventId, State};
use crate::record::{Outcome, Page, Query, Record};
use crate::time::Timestamp;

/// How many pages of records are read where a look may repeat an old one: more than one look pushes,
/// with some attempts each, also where much waits for the journal.
const PAGES_MAX: usize = 64;
/// Records are read from so long before the look was due, as its time may have been set meanwhile.
const EARLIER: Duration = Duration::from_secs(60);

/// Whether an event was cancelled.
pub(super) async fn is_cancelled(
    inner: &Arc<Inner>,
    place: &BucketKey,
    id: EventId,
) -> Result<bool> {
    match inner.apply(place, StoreOp::get(id)).await? {
        Some(found) => Ok(found.state == State::Cancelled),
        None => Ok(last_outcome(inner, place, id).await? == Some(Outcome::Cancelled)),
    }
}

/// Cancels an event that is to come; returns whether it is cancelled, also if an earlier call did it. One
/// that was tried before stays: it is under way, whatever time it is here.
pub(super) async fn cancel(inner: &Arc<Inner>, place: &BucketKey, id: EventId) -> Result<bool> {
    let found = inner.apply(place, StoreOp::get(id)).await?;
    let waits = |found: &Snapshot| matches!(found.state, State::Scheduled | State::Ready);
    if found.is_some_and(|found| waits(&found) && found.tries > 0) {
        return Ok(false);
    }
    match inner.apply(place, StoreOp::cancel(id)).await? {
        CancelOutcome::Cancelled
        | CancelOutcome::CancelledAfterAttempt
        | CancelOutcome::TooLate(State::Cancelled) => Ok(true),
        CancelOutcome::TooLate(_) => Ok(false),
        CancelOutcome::NotFound => {
            // It was not due yet; without a record it is taken for cancelled.
            let outcome = last_outcome(inner, place, id).await?;
            Ok(outcome.is_none_or(|outcome| outcome == Outcome::Cancelled))
        }
    }
}

/// How an event ended, by its records; `None`: it has none.
async fn last_outcome(
    inner: &Arc<Inner>,
    place: &BucketKey,
    id: EventId,
) -> Result<Option<Outcome>> {
    let records = records_of(inner, place).id(id).newest_first();
    match records.first().await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        latest => Ok(latest?.map(|record| record.outcome)),
    }
}

/// Those of some events of a schedule that have ended since a look at it was due: the store may have
/// forgotten their ids, and would take them for new.
pub(super) async fn ended(
    inner: &Arc<Inner>,
    link: &Link,
    pushed: &PushedOccurrences,
    (wanted, due): (&BTreeSet<EventId>, Timestamp),
) -> Result<BTreeSet<EventId>> {
    let (mut ended, mut after) = (BTreeSet::new(), None);
    let earlier = u64::try_from(EARLIER.as_millis()).unwrap_or(0);
    let since = Timestamp::from_millis(due.as_millis().saturating_sub(earlier));
    for _ in 0..PAGES_MAX {
        let records = records_of(inner, &pushed.place()).key(&link.name);
        let records = records.since(since).newest_first().after(after);
        let page = page(records.limit(Query::LIMIT_MAX)).await?;
        let ids = page.items.into_iter().map(|record| record.id);
        ended.extend(ids.filter(|id| wanted.contains(id)));
        after = page.next;
        if after.is_none() || ended.len() == wanted.len() {
            return Ok(ended);
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        "more records wait for the journal than are read to find what has ended already",
    ))
}

fn records_of(inner: &Arc<Inner>, place: &BucketKey) -> Records {
    let records = Bus::from_inside(Arc::clone(inner)).records();
    records.queue(place.queue.as_str())
}

/// Reads a page; of a queue that the store does not know yet it has nothing, however much the name
/// resembles that of another one.
async fn page(records: Records) -> Result<Page<Record>> {
    match records.page().await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Page::new(Vec::new(), None)),
        read => read,
    }
}
