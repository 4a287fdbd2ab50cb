//! Occurrences that wait for their jitter though their instants have passed: a schedule that is paused
//! or removed takes them back.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::TryStreamExt;

use crate::bus::fan_out::as_they_come;
use crate::bus::inner::Inner;
use crate::bus::schedules::history::cancel;
use crate::bus::schedules::link::{LeftPlace, Link, NEARLY_DUE};
use crate::core::op::{BATCH_MAX, PeekBy, Snapshot, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, EventId, Occurrence, State};
use crate::time::Timestamp;

/// The most places that are noted as left: one whose queue is changed more often within its jitter
/// forgets the earliest.
const LEFT_MAX: usize = 16;

/// An occurrence that waits.
struct Waiting {
    id: EventId,
    due: Timestamp,
    occurrence: Occurrence,
}

/// Notes as to come those that wait for their jitter, from the last one on that does not: they are
/// decided anew when the schedule goes on.
pub(super) async fn note_waiting(
    inner: &Arc<Inner>,
    link: &mut Link,
    now: Timestamp,
) -> Result<()> {
    let waiting = waiting(inner, (link, &link.pushed.place()), now).await?;
    let of_change = waiting.into_iter().filter(|one| {
        let instant = one.occurrence.instant;
        one.id == link.id_of(&link.pushed, instant) && !link.pushed.ahead.contains(&instant)
    });
    let instants: BTreeMap<_, _> = of_change
        .map(|one| (one.occurrence.instant, one.occurrence.previous))
        .collect();
    let Some((first, _)) = instants.first_key_value() else {
        return Ok(());
    };
    let options = link.former.as_ref().unwrap_or(&link.options);
    let before = Timestamp::from_millis(first.as_millis().saturating_sub(1));
    let decided = options.instants(before);
    let decided = decided.take_while(|instant| *instant <= link.progress.through.min(now));
    let last_other = decided
        .filter(|instant| !instants.contains_key(instant) && !link.pushed.ahead.contains(instant))
        .last();
    let back = instants.into_iter();
    let back = back.filter(|(instant, _)| last_other.is_none_or(|last| *instant > last));
    let back: Vec<_> = back.collect();
    if let Some((_, previous)) = back.first() {
        link.pushed.before = *previous;
        link.pushed.before_event = None;
        let back = back.iter().map(|(instant, _)| *instant);
        link.pushed.ahead.splice(0..0, back);
    }
    Ok(())
}

/// The places in which occurrences wait for their jitter when the schedule pushes to another one from
/// now on.
pub(super) async fn left_places(
    inner: &Arc<Inner>,
    link: &Link,
    now: Timestamp,
) -> Result<Vec<LeftPlace>> {
    let place = link.pushed.place();
    let waiting = waiting(inner, (link, &place), now).await?;
    let until = waiting.iter().map(|one| one.due).max();
    let earlier = link.left.iter();
    let earlier = earlier.filter(|left| left.until > now && left.place() != place);
    let mut left: Vec<_> = earlier.cloned().collect();
    left.extend(until.map(|until| LeftPlace {
        queue: place.queue,
        bucket: place.bucket.0,
        until,
    }));
    left.drain(..left.len().saturating_sub(LEFT_MAX));
    Ok(left)
}

/// Cancels those that are left, also in places of earlier options; they do not come back.
pub(super) async fn cancel_waiting(
    inner: &Arc<Inner>,
    link: &mut Link,
    now: Timestamp,
) -> Result<()> {
    let left = std::mem::take(&mut link.left);
    let places = left.iter().map(LeftPlace::place);
    for place in places.chain([link.pushed.place()]) {
        let waiting = waiting(inner, (link, &place), now).await?.into_iter();
        let cancels = waiting.map(|one| cancel(inner, &place, one.id));
        as_they_come(cancels).try_for_each(async |_| Ok(())).await?;
    }
    Ok(())
}

/// Returns whether an occurrence waits, and will for a moment longer.
pub(super) async fn waits(
    inner: &Arc<Inner>,
    place: &BucketKey,
    id: EventId,
    now: Timestamp,
) -> Result<bool> {
    let found = inner.apply(place, StoreOp::get(id)).await?;
    Ok(found.is_some_and(|found| is_waiting(&found, now)))
}

fn is_waiting(found: &Snapshot, now: Timestamp) -> bool {
    found.state == State::Scheduled && found.tries == 0 && found.due.since(now) > NEARLY_DUE
}

/// The occurrences of a schedule whose instants have passed, and that wait, in a place.
async fn waiting(
    inner: &Arc<Inner>,
    (link, place): (&Link, &BucketKey),
    now: Timestamp,
) -> Result<Vec<Waiting>> {
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let peek = StoreOp::peek(PeekBy::Key(link.name.clone()), from, BATCH_MAX);
        let page = inner.apply(place, peek).await?;
        let waiting = page.events.iter().filter(|event| is_waiting(event, now));
        all.extend(waiting.filter_map(|event| {
            let occurrence = Occurrence::of_headers(&event.body.as_ref()?.headers)?;
            // One that was run by hand has an id of its own.
            let is_ours = occurrence.schedule == link.name && !event.id.tells_time();
            (is_ours && occurrence.instant <= now).then_some(Waiting {
                id: event.id,
                due: event.due,
                occurrence,
            })
        }));
        from = page.next;
        if from.is_none() {
            return Ok(all);
        }
    }
}
