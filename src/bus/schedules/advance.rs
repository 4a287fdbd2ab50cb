//! One look at a schedule: what its link decides is pushed, then the next link.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;

use crate::bus::fan_out::as_they_come;
use crate::bus::inner::Inner;
use crate::bus::schedules::history::{cancel, is_cancelled};
use crate::bus::schedules::link::{Link, NEARLY_DUE, PushedOccurrences, bucket_of};
use crate::bus::schedules::links::{Links, StoredLink};
use crate::bus::schedules::occurrence_options::OccurrenceOptions;
use crate::bus::schedules::waiting::{cancel_waiting, left_places, note_waiting, waits};
use crate::bus::schedules::written::{Look, LookWrites, Pushes, ended_of};
use crate::core::op::{Snapshot, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketId, BucketKey, Occurrence, SkipReason, State};
use crate::schedule::OverlapPolicy;
use crate::schedule::plan::plan;
use crate::time::Timestamp;

/// Schedules with the same next instant are looked at within this time, not at once.
const SPREAD: Duration = Duration::from_secs(15);

/// Looks at the schedule of a link that is leased, and returns what was written. Another look at the
/// link may have done so before, in part or wholly.
pub(super) async fn advance(inner: &Arc<Inner>, link: &Link, look: Look) -> Result<LookWrites> {
    let now = look.due.max(inner.now());
    let links = Links::of(inner, &link.name)?;
    let newest = links.find(&link.name).await?;
    let is_alone = newest.as_ref().is_none_or(|newest| newest.is_alone);
    let is_over =
        |newest: StoredLink| newest.link.number > link.number || newest.link.life != link.life;
    if newest.is_some_and(is_over) {
        return Ok(LookWrites::default()); // all was done, but for the ack
    }
    let mut link = link.clone();
    link.number += 1;
    if link.lacks_queue_options() {
        let known = OccurrenceOptions::of(inner, link.options.queue());
        link.note_queue_options(known, false);
    }
    if link.change != link.applied && !link.withdraws {
        if !link.removed {
            link.check_known()?;
        }
        // The next link takes back what is to come; it knows then that what is cancelled was
        // cancelled by it.
        if look.is_repeated {
            complete(inner, &mut link, (now, look)).await?;
        }
        if !link.removed && !link.begins_anew {
            keep_unwanted(inner, &mut link).await?;
        }
        if link.takes_all_back() {
            note_waiting(inner, &mut link, now).await?;
        }
        link.withdraws = true;
        return LookWrites::next(&links, link, Some(now)).await;
    }
    if link.withdraws {
        withdraw(inner, &mut link, now).await?;
        link.withdraws = false;
        if link.removed {
            return Ok(LookWrites::end(is_alone));
        }
        // What follows is pushed under the change by the next link, so that one that is changed again
        // has pushed nothing that is not under its last.
        return LookWrites::next(&links, link, Some(now)).await;
    }
    if link.removed {
        return Ok(LookWrites::end(is_alone));
    }
    // Also of options that were replaced before their queue was noted, and have instants to make up for.
    let queue = link.former.as_ref().unwrap_or(&link.options).queue();
    if link.pushed.queue != *queue {
        // Where its occurrences go is noted before the first of them is pushed: a look that is
        // repeated may find another number of buckets.
        let bucket = bucket_of(&link.name, inner.buckets(queue, &inner.options(queue)));
        let last = (link.progress.last, link.last.clone());
        link.left = left_places(inner, &link, now).await?;
        link.pushed = PushedOccurrences::none((queue.clone(), bucket), link.applied, last);
        return LookWrites::next(&links, link, Some(now)).await;
    }
    let (mut look_at, mut pushes) = (None, None);
    if link.paused.is_none() {
        link.check_known()?;
        // First what the options before a change have left, until it was made.
        let (of_former, until) = (link.acting(), link.former.as_ref().map(|_| link.since));
        let acting = of_former.as_ref().unwrap_or(&link);
        let busy_for = busy_for(inner, acting, now).await?;
        let of = (acting.name.as_str(), &acting.options);
        let so_far = (acting.progress, &acting.decided, until);
        let planned = plan(of, so_far, now, busy_for);
        let pushed = pushed_of(acting, &planned.occurrences, now);
        let new = Pushes {
            of: acting.clone(),
            pushed: pushed.clone(),
            occurrences: planned.occurrences,
            now,
        };
        new.push(inner, look).await?;
        link.progress = planned.progress;
        link.forget_decided(now);
        link.pushed = pushed;
        if new.occurrences.iter().any(|one| one.skipped.is_none()) {
            link.note_last();
        }
        pushes = Some(new);
        look_at = planned.look_at.map(|at| staggered(&link, now, at));
        if until.is_some() && look_at.is_none() {
            link.former = None;
            link.progress.through = link.progress.through.max(link.since);
            look_at = Some(now);
        }
    }
    let written = LookWrites::next(&links, link, look_at).await?;
    Ok(written.with(pushes))
}

/// Before a change is carried out: what an earlier look at the link has pushed, and did not note,
/// is noted, and what it left out in between is pushed.
async fn complete(
    inner: &Arc<Inner>,
    link: &mut Link,
    (now, look): (Timestamp, Look),
) -> Result<()> {
    let of_former = link.acting();
    let acting = of_former.as_ref().unwrap_or(link);
    if acting.pushed.queue != *acting.options.queue() {
        return Ok(()); // it had not come so far
    }
    let of = (acting.name.as_str(), &acting.options);
    let so_far = (acting.progress, &acting.decided, None);
    let mut occurrences = plan(of, so_far, now, None).occurrences;
    let pushed = pushed_of(acting, &occurrences, now);
    let ended = ended_of(inner, (acting, &pushed), &occurrences, look).await?;
    let place = pushed.place();
    let finds = occurrences.iter().map(|one| {
        let (id, place) = (acting.id_of(&pushed, one.instant), &place);
        let is_ended = ended.contains(&id);
        async move {
            let is_there = is_ended || inner.apply(place, StoreOp::get(id)).await?.is_some();
            Ok::<_, Error>(is_there.then_some(one.instant))
        }
    });
    let finds: Vec<_> = as_they_come(finds).try_collect().await?;
    let last = finds.into_iter().flatten().max();
    occurrences.retain(|one| Some(one.instant) <= last);
    let Some(through) = last else {
        return Ok(());
    };
    let pushed = pushed_of(acting, &occurrences, now);
    let pushes = Pushes {
        of: acting.clone(),
        pushed: pushed.clone(),
        occurrences,
        now,
    };
    pushes.push(inner, look).await?;
    link.pushed = pushed;
    link.progress.through = through;
    if pushes
        .occurrences
        .iter()
        .any(|one| one.skipped == Some(SkipReason::Missed))
    {
        link.progress.unsaid = 0; // the first of them says it
    }
    let run = pushes.occurrences.iter().rfind(|one| one.skipped.is_none());
    if let Some(run) = run {
        link.progress.last = Some(run.instant);
        link.progress.missed = 0;
        link.note_last();
    }
    Ok(())
}

/// Before what is to come is taken back: what somebody has cancelled stays as it is.
async fn keep_unwanted(inner: &Arc<Inner>, link: &mut Link) -> Result<()> {
    let place = link.pushed.place();
    for instant in link.pushed.ahead.clone() {
        if is_cancelled(inner, &place, link.id_of(&link.pushed, instant)).await? {
            link.decided.insert(instant);
        }
    }
    Ok(())
}

/// Takes back what was pushed and is to come, since the schedule has changed.
async fn withdraw(inner: &Arc<Inner>, link: &mut Link, now: Timestamp) -> Result<()> {
    let place = link.pushed.place();
    // Whoever made the change may have taken the time for later than it was.
    link.since = link.since.min(now);
    let (mut first, was_ahead) = (None, !link.pushed.ahead.is_empty());
    while let Some(instant) = link.pushed.ahead.last().copied() {
        let id = link.id_of(&link.pushed, instant);
        let is_back =
            if instant > now || (link.takes_all_back() && waits(inner, &place, id, now).await?) {
                cancel(inner, &place, id).await? // also by an earlier look
            } else {
                // What is due is under way, unless an earlier look has taken it back in time.
                is_cancelled(inner, &place, id).await?
            };
        if !is_back {
            // It is under way, also one that was leased ahead of its time.
            if instant.since(now) <= NEARLY_DUE && !link.begins_anew {
                break;
            }
            link.decided.insert(instant); // or somebody has run it early
        }
        link.pushed.ahead.pop();
        first = Some(instant);
    }
    let mut through = link.progress.through;
    if let Some(first) = first {
        let last = link.pushed.ahead.last().copied();
        link.progress.last = last.or(link.pushed.before);
        link.note_last();
        if last.is_none() && link.pushed.before_event.is_some() {
            link.last.clone_from(&link.pushed.before_event);
        }
        // Each instant before it is decided, and none that is to come.
        let before = Timestamp::from_millis(first.as_millis().saturating_sub(1));
        through = before.min(now).max(link.progress.last.unwrap_or_default());
    }
    if link.takes_all_back() {
        cancel_waiting(inner, link, now).await?;
    }
    // What was pushed ahead of the time is no reason to pass over instants of other options.
    let reached = if was_ahead {
        link.pushed.before.unwrap_or_default()
    } else {
        through
    };
    link.go_on_from(through, reached.max(link.since));
    link.applied = link.change;
    Ok(())
}

/// Returns for how long the last occurrence has been in its state, if it has not ended and that
/// matters.
async fn busy_for(inner: &Inner, link: &Link, now: Timestamp) -> Result<Option<Duration>> {
    let Some(last) = &link.last else {
        return Ok(None);
    };
    if link.options.overlap_policy() == OverlapPolicy::Allow {
        return Ok(None);
    }
    let place = BucketKey::new(last.queue.clone(), BucketId(last.bucket));
    let found = inner.apply(&place, StoreOp::get(last.id)).await?;
    let is_open = |found: &Snapshot| !found.state.is_final() && found.state != State::Dead;
    let found = found.filter(is_open);
    Ok(found.map(|found| now.since(found.since.unwrap_or(now))))
}

/// Which of all that were pushed are to come when these are, too. Their bucket stays, whatever the
/// number of buckets is now: one that was used once is always served.
fn pushed_of(link: &Link, occurrences: &[Occurrence], now: Timestamp) -> PushedOccurrences {
    let run = occurrences.iter().filter(|one| one.skipped.is_none());
    let before = &link.pushed;
    if occurrences.is_empty() {
        return before.clone();
    }
    let (known, earlier) = if before.change == link.applied {
        let earlier = (before.before, before.before_event.clone());
        (before.ahead.as_slice(), earlier)
    } else {
        (&[][..], (link.progress.last, link.last.clone()))
    };
    let all = known.iter().copied().chain(run.map(|one| one.instant));
    let (past, ahead): (Vec<_>, Vec<_>) = all.partition(|instant| *instant <= now);
    let last = past.last().map_or(earlier, |last| (Some(*last), None));
    let place = (before.queue.clone(), before.bucket);
    PushedOccurrences {
        ahead,
        ..PushedOccurrences::none(place, link.applied, last)
    }
}

/// When the schedule is looked at, if it need not be at that very time.
fn staggered(link: &Link, now: Timestamp, look_at: Timestamp) -> Timestamp {
    let earlier = link.part_of(SPREAD);
    if link.options.overlap_policy() != OverlapPolicy::Allow || look_at.since(now) <= SPREAD {
        return look_at;
    }
    let earlier = u64::try_from(earlier.as_millis()).unwrap_or(0);
    Timestamp::from_millis(look_at.as_millis() - earlier)
}
