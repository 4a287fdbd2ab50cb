//! Occurrences that wait for their jitter though their instants have passed: a schedule that is paused
//! or removed takes them back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;

use crate::bus::fan_out::as_they_come;
use crate::bus::inner::Inner;
use crate::bus::schedules::history::cancel;
use crate::bus::schedules::link::Link;
use crate::core::op::{BATCH_MAX, PeekBy, Snapshot, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, EventId, Occurrence, State};
use crate::time::Timestamp;

/// What is due within this time counts as under way.
const NEARLY_DUE: Duration = Duration::from_secs(1);

/// An occurrence that waits.
struct Waiting {
    id: EventId,
    occurrence: Occurrence,
}

/// Notes as to come those that wait for their jitter, from the last one on that does not: they are
/// decided anew when the schedule goes on.
pub(super) async fn note_waiting(
    inner: &Arc<Inner>,
    link: &mut Link,
    now: Timestamp,
) -> Result<()> {
    let waiting = waiting(inner, link, now).await?;
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
    let decided = decided.take_while(|instant| *instant <= link.progress.through);
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

/// Cancels those that are left; they do not come back.
pub(super) async fn cancel_waiting(inner: &Arc<Inner>, link: &Link, now: Timestamp) -> Result<()> {
    let place = link.pushed.place();
    let waiting = waiting(inner, link, now).await?.into_iter();
    let cancels = waiting.map(|one| cancel(inner, &place, one.id));
    as_they_come(cancels).try_for_each(async |_| Ok(())).await
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

/// The occurrences of a schedule whose instants have passed, and that wait, where it pushes to now.
async fn waiting(inner: &Arc<Inner>, link: &Link, now: Timestamp) -> Result<Vec<Waiting>> {
    let (place, mut from) = (link.pushed.place(), None);
    let mut all = Vec::new();
    loop {
        let peek = StoreOp::peek(PeekBy::Key(link.name.clone()), from, BATCH_MAX);
        let page = inner.apply(&place, peek).await?;
        let waiting = page.events.iter().filter(|event| is_waiting(event, now));
        all.extend(waiting.filter_map(|event| {
            let occurrence = Occurrence::of_headers(&event.body.as_ref()?.headers)?;
            // One that was run by hand has an id of its own.
            let is_ours = occurrence.schedule == link.name && !event.id.tells_time();
            (is_ours && occurrence.instant <= now).then_some(Waiting {
                id: event.id,
                occurrence,
            })
        }));
        from = page.next;
        if from.is_none() {
            return Ok(all);
        }
    }
}
