//! The writes of a look at a schedule: occurrences, then the next link; both once more where a failover
//! of the store may have lost them.
//!
//! A look may span a failover: what it has pushed before is not on the new master, and what it does
//! after it is. Without its next link a schedule would be gone when the last one is acked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;

use crate::bus::fan_out::as_they_come;
use crate::bus::inner::Inner;
use crate::bus::push::options::EventOptions;
use crate::bus::schedules::event::event_of;
use crate::bus::schedules::history::ended;
use crate::bus::schedules::link::{Link, PushedOccurrences};
use crate::bus::schedules::links::Links;
use crate::bus::schedules::occurrence_queue::queue_for;
use crate::core::op::{StoreOp, Unique};
use crate::error::Result;
use crate::event::{EventId, LatePolicy, Occurrence, spread_header, spread_part};
use crate::schedule::MissedPolicy;
use crate::schedule::plan::GRACE;
use crate::time::{Timestamp, When};

/// An occurrence that waits is given up no earlier than this, whatever its schedule says.
const LATE_MIN: Duration = Duration::from_secs(60);

/// How soon it is seen to whether the earlier links of a removed schedule are acked.
const LAST_AFTER: Duration = Duration::from_millis(250);

/// A look at a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// When the store took its link for due, which this process may take for later than now.
    pub(super) due: Timestamp,
    /// Whether another look at the link has begun before, which may have pushed something.
    pub(super) is_repeated: bool,
    /// Whether that may be so long ago that the store has forgotten it.
    pub(super) is_old: bool,
}

/// What one look has written.
#[derive(Debug, Default)]
pub(super) struct LookWrites {
    pushes: Option<Pushes>,
    /// The next link, and when it is due.
    next: Option<(Link, Option<Timestamp>)>,
    /// The link stays, and is looked at again after this.
    pub(super) again: Option<Duration>,
}

/// Occurrences that a look pushes.
#[derive(Debug)]
pub(super) struct Pushes {
    /// The schedule that they are of.
    pub(super) of: Link,
    /// Where they lie.
    pub(super) pushed: PushedOccurrences,
    pub(super) occurrences: Vec<Occurrence>,
    /// When the look was.
    pub(super) now: Timestamp,
}

impl LookWrites {
    /// Pushes the next link of a schedule.
    pub(super) async fn next(
        links: &Links,
        link: Link,
        look_at: Option<Timestamp>,
    ) -> Result<Self> {
        links.push(&link, look_at, Unique::Replace).await?;
        Ok(Self {
            pushes: None,
            next: Some((link, look_at)),
            again: None,
        })
    }

    /// Nothing follows: the schedule ends with its link. It stays while an earlier one does
    /// (`is_alone`: none), which would be taken for the newest, as if nobody had removed the schedule.
    pub(super) fn end(is_alone: bool) -> Self {
        Self {
            again: (!is_alone).then_some(LAST_AFTER),
            ..Self::default()
        }
    }

    /// And occurrences before it.
    pub(super) fn with(self, pushes: Option<Pushes>) -> Self {
        Self { pushes, ..self }
    }

    /// What was pushed, or passed over.
    pub(super) fn occurrences(&self) -> &[Occurrence] {
        self.pushes.as_ref().map_or(&[], |it| &it.occurrences)
    }

    /// Writes it once more where the store does not have it. `keeps`: as in a push of the next link,
    /// whose place the last one has until it is acked.
    pub(super) async fn restore(
        &self,
        inner: &Arc<Inner>,
        look: Look,
        keeps: Unique,
    ) -> Result<()> {
        if let Some(pushes) = &self.pushes {
            let look = Look {
                is_old: true,
                ..look
            };
            pushes.push(inner, look).await?;
        }
        let Some((link, look_at)) = &self.next else {
            return Ok(());
        };
        let home = Link::home(&link.name)?;
        let get = StoreOp::get(link.id(&home));
        if inner.apply(&home, get).await?.is_none() {
            let links = Links::of(inner, &link.name)?;
            links.push(link, *look_at, keeps).await?;
        }
        Ok(())
    }
}

impl Pushes {
    /// Pushes them, apart from those that have ended and that the store may have forgotten.
    pub(super) async fn push(&self, inner: &Arc<Inner>, look: Look) -> Result<()> {
        let Self {
            of, pushed, now, ..
        } = self;
        let ended = ended_of(inner, (of, pushed), &self.occurrences, look).await?;
        let is_open = |one: &&Occurrence| !ended.contains(&of.id_of(pushed, one.instant));
        let pushes = self.occurrences.iter().filter(is_open);
        let pushes = pushes.map(|one| push(inner, (of, pushed), one, *now));
        as_they_come(pushes).try_collect::<()>().await
    }
}

/// Those of some occurrences that have ended, where the store may have forgotten them.
pub(super) async fn ended_of(
    inner: &Arc<Inner>,
    (link, pushed): (&Link, &PushedOccurrences),
    occurrences: &[Occurrence],
    look: Look,
) -> Result<BTreeSet<EventId>> {
    if !look.is_old || occurrences.is_empty() {
        return Ok(BTreeSet::new());
    }
    let ids = occurrences.iter();
    let ids: BTreeSet<_> = ids.map(|one| link.id_of(pushed, one.instant)).collect();
    ended(inner, link, pushed, (&ids, look.due)).await
}

/// Pushes an occurrence, or leaves a record of one that is passed over: an event that has expired.
async fn push(
    inner: &Arc<Inner>,
    (link, pushed): (&Link, &PushedOccurrences),
    occurrence: &Occurrence,
    now: Timestamp,
) -> Result<()> {
    let (instant, options) = (occurrence.instant, &link.options);
    let id = link.id_of(pushed, instant);
    let is_skipped = occurrence.skipped.is_some();
    let late = match options.missed_policy() {
        MissedPolicy::Skip if !is_skipped => {
            let next = options.instants(instant).next();
            let span = next.map_or(LATE_MIN, |next| next.since(instant));
            Some(LatePolicy::Expire(span.max(LATE_MIN)))
        }
        _ => None,
    };
    let (value, mut event) = event_of(link, occurrence, When::At(instant));
    let jitter = options.jitter_window();
    // What was missed is made up for at once.
    if !jitter.is_zero() && !is_skipped && now.since(instant) < GRACE {
        event.headers.push(spread_header(jitter, When::At(instant)));
        // Counted from the instant, however late it is pushed.
        event.when = Some(When::At(instant + spread_part(id, jitter)));
    }
    let event = EventOptions {
        late: late.or(is_skipped.then_some(LatePolicy::Deliver)),
        // Also where the clock of this process is ahead: no handler gets it.
        expires: is_skipped.then_some(instant),
        spread: Some(Duration::ZERO),
        keep_payload: is_skipped.then_some(true),
        ..event
    };
    let queue = queue_for(inner, link, &pushed.queue);
    queue
        .push_placed((id, pushed.place().bucket), value, event)
        .await?;
    Ok(())
}
