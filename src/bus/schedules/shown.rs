//! A schedule, as it is shown.

use std::time::Duration;

use crate::bus::inner::Inner;
use crate::bus::schedules::declaration::GONE_AFTER;
use crate::bus::schedules::declare::EVERY;
use crate::bus::schedules::links::StoredLink;
use crate::schedule::ScheduleOptions;
use crate::time::Timestamp;

/// A schedule as the store has it; from [`Schedules`](crate::admin::Schedules).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// Its options.
    pub options: ScheduleOptions,
    /// Since when it is paused, if it is.
    pub paused: Option<Timestamp>,
    /// The last instant that an occurrence was pushed for, which may be to come.
    pub last: Option<Timestamp>,
    /// The occurrences that were pushed and are to come, in order.
    pub ahead: Vec<Timestamp>,
    /// When a program declared it last; `None`: it was set while programs ran, and no program declares it.
    pub declared: Option<Timestamp>,
    /// Whether a change waits to be carried out by a bus that consumes.
    pub is_changing: bool,
    /// The store's time when it was read.
    pub now: Timestamp,
    /// Whether its payload was read.
    pub(crate) is_whole: bool,
    gone_after: Duration,
}

impl Schedule {
    pub(super) fn of(inner: &Inner, found: StoredLink) -> Self {
        let (now, link) = (inner.now(), found.link);
        let mut ahead = link.pushed.ahead;
        ahead.retain(|instant| *instant > now);
        Self {
            paused: link.paused,
            last: link.progress.last,
            ahead,
            declared: link.declarations.current().map(|current| current.seen),
            is_changing: link.change != link.applied
                || (link.former.is_some() && link.paused.is_none()),
            now,
            is_whole: found.is_whole,
            gone_after: inner.real_pause(EVERY) * GONE_AFTER,
            name: link.name,
            options: link.options,
        }
    }

    /// Its next instant from when it was read, if there is one and it is not paused.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        self.instants().next()
    }

    /// Its instants from when it was read, in order; none while it is paused.
    pub fn instants(&self) -> impl Iterator<Item = Timestamp> + '_ {
        let all = self
            .paused
            .is_none()
            .then(|| self.options.instants(self.now));
        all.into_iter().flatten()
    }

    /// Whether programs declared it and none has done so for ten minutes. It goes on until it is
    /// removed.
    #[must_use]
    pub fn is_declaration_gone(&self) -> bool {
        // A clock that was ahead may have said it: a program that goes on says it anew by the next round.
        let differs = |seen: Timestamp| self.now.since(seen).max(seen.since(self.now));
        let declared = self.declared.map(differs);
        declared.is_some_and(|differs| differs >= self.gone_after)
    }

    /// Says in English when it is next due, and why.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// use duly::schedule::ScheduleOptions;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let once = ScheduleOptions::new("report", "0 0 9 1 1 * 2020")?;
    /// bus.schedules().set("once", once).await?;
    /// let once = bus.schedules().get("once").await?.unwrap();
    /// assert_eq!(once.explain(), "never again: `0 0 9 1 1 * 2020 UTC` has no instant left");
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    #[must_use]
    pub fn explain(&self) -> String {
        let when = self.options.recurrence();
        if let Err(why) = when.check() {
            return format!("not known in this process: {why}");
        }
        let Some(next) = self.next() else {
            return match self.paused {
                Some(since) => format!("not before it is resumed: it was paused at {since}"),
                None => format!("never again: `{when}` has no instant left"),
            };
        };
        let mut words = format!("next at {}, because of `{when}`", when.clock_time(next));
        if self.is_changing {
            words.push_str("; a change waits for a bus that consumes");
        } else if self.ahead.first() == Some(&next) {
            words.push_str("; its event is pushed already");
        }
        words
    }
}
