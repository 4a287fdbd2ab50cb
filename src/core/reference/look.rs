//! Looking: get, peek, stats and forecast. None of it changes anything, and none of it sees what
//! is not confirmed.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use crate::core::op::{BATCH_MAX, Snapshot, Stats};
use crate::core::reference::entry::{Entry, Place};
use crate::core::reference::{Bucket, Finished, check_spans};
use crate::error::Result;
use crate::event::{EventId, State};
use crate::time::Timestamp;

/// A state that has less than one of so many of all events is read from its own index.
const RARE: usize = 8;

impl<B: Clone> Bucket<B> {
    pub(super) fn get(&self, id: EventId) -> Option<Snapshot<B>> {
        match self.entries.get(&id) {
            Some(entry) if entry.is_held() => None,
            Some(entry) => Some(self.snapshot(id, entry)),
            None => self.past.get(id).map(|past| over(&past.finished)),
        }
    }

    pub(super) fn peek(
        &self,
        state: State,
        after: Option<EventId>,
        limit: usize,
    ) -> Vec<Snapshot<B>> {
        let limit = limit.min(BATCH_MAX);
        if state.is_final() {
            let past = self.past.after(after);
            let past = past.filter(|finished| finished.state == state);
            return past.take(limit).map(over).collect();
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = (from, Bound::Unbounded);
        let look = |id: &EventId| {
            let entry = self.entries.get(id)?;
            Some(self.snapshot(*id, entry))
        };
        let Stats { ready, leased, .. } = self.stats();
        let is_rare = |count: usize| count < self.entries.len() / RARE;
        match state {
            State::Dead => {
                let dead = self.dead.range(range).take(limit);
                dead.filter_map(look).collect()
            }
            State::Ready if is_rare(ready) => {
                let ids = self.waiting.ready().map(|(_, ready)| ready.id);
                let ids = least(ids, after, limit);
                ids.iter().filter_map(look).collect()
            }
            State::Leased if is_rare(leased) => {
                let leased = |id: &EventId| {
                    let entry = self.entries.get(id);
                    entry.is_some_and(|entry| entry.state() == State::Leased)
                };
                let ids = least(self.nodes.ids().filter(leased), after, limit);
                ids.iter().filter_map(look).collect()
            }
            _ => {
                let all = self.entries.range(range);
                let those = all.filter(|(_, entry)| entry.state() == state && !entry.is_held());
                those
                    .take(limit)
                    .map(|(id, entry)| self.snapshot(*id, entry))
                    .collect()
            }
        }
    }

    /// How many events stand where; what is not confirmed is not counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            scheduled: self.waiting.scheduled_len(),
            ready: self.waiting.ready_len(),
            leased: self.nodes.leased(),
            dead: self.dead.len(),
            oldest_ready: self
                .waiting
                .oldest_ready_us()
                .map(|us| Timestamp::from_millis(us / 1_000)),
        }
    }

    pub(super) fn forecast(&self, within: &[Duration]) -> Result<Vec<usize>> {
        check_spans(within)?;
        let ends_us = within.iter().map(|span| {
            let span_us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
            self.now_us.saturating_add(span_us)
        });
        Ok(self.waiting.count_until_each(ends_us))
    }

    fn snapshot(&self, id: EventId, entry: &Entry<B>) -> Snapshot<B> {
        let since_us = match &entry.place {
            Place::Ready(at) => self.waiting.moved_us(*at),
            Place::Leased(lease) => Some(lease.fetched_us),
            Place::Dead(at) => Some(at.as_micros()),
            Place::Held | Place::Scheduled => None,
        };
        Snapshot {
            id,
            state: entry.state(),
            due: entry.due,
            tries: entry.tries,
            since: since_us.map(|us| Timestamp::from_millis(us / 1_000)),
            holder: entry.lease().map(|lease| lease.node),
            until: entry.lease().and_then(|lease| lease.deadline),
            body: Some(entry.body.clone()),
        }
    }
}

/// The `limit` least ids greater than `after`, in their order.
fn least(
    ids: impl Iterator<Item = EventId>,
    after: Option<EventId>,
    limit: usize,
) -> BTreeSet<EventId> {
    let mut least = BTreeSet::new();
    for id in ids.filter(|id| after.is_none_or(|after| *id > after)) {
        least.insert(id);
        if least.len() > limit {
            least.pop_last();
        }
    }
    least
}

fn over<B>(finished: &Finished) -> Snapshot<B> {
    Snapshot {
        id: finished.id,
        state: finished.state,
        due: finished.due,
        tries: finished.tries,
        since: None,
        holder: None,
        until: None,
        body: None,
    }
}
