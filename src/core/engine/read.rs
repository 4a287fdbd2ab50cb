//! Read-only operations: get, peek, stats and forecast. None sees unconfirmed events.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::core::engine::bucket::Bucket;
use crate::core::engine::entry::{Budget, Entry, Place};
use crate::core::engine::limits::check_spans;
use crate::core::op::Tombstone;
use crate::core::op::{
    BATCH_MAX, ChangeSink, DeadPage, PeekBy, PeekCursor, PeekPage, Reply, Snapshot, Stats,
};
use crate::error::{Error, Result};
use crate::event::{EventId, State};
use crate::time::Timestamp;

impl<B: Clone> Bucket<B> {
    /// Returns an event as it stands; one that has expired since the last operation still waits.
    #[must_use]
    pub fn get(&self, id: EventId) -> Option<Snapshot<B>> {
        match self.entries.get(&id) {
            Some(entry) if entry.is_unconfirmed() => None,
            Some(entry) => Some(self.snapshot(id, entry)),
            None => self.dedup.get(id).map(over),
        }
    }

    /// Scans the events in the order of their ids: an id never changes, so no event that stays is
    /// missed.
    pub(super) fn peek<L: ChangeSink<Body = B>>(
        &mut self,
        by: &PeekBy,
        from: Option<&PeekCursor>,
        limit: usize,
        sink: &mut L,
    ) -> Result<Reply<B>> {
        let limit = limit.clamp(1, BATCH_MAX);
        let after = from.map(id_of).transpose()?;
        let zero = EventId::from_bytes([0; 16]);
        let ids: Vec<EventId> = match by {
            PeekBy::All => {
                let all = self.entries.range(beyond(after).0);
                all.map(|(id, _)| *id).take(limit).collect()
            }
            PeekBy::Key(key) => {
                let key: Arc<str> = Arc::from(key.as_str());
                let from = match after {
                    Some(after) => Bound::Excluded((Arc::clone(&key), after)),
                    None => Bound::Included((Arc::clone(&key), zero)),
                };
                let to = Bound::Included((key, EventId::from_bytes([u8::MAX; 16])));
                let of_key = self.keys.range((from, to));
                of_key.map(|(_, id)| *id).take(limit).collect()
            }
            PeekBy::Unique(key) => {
                let id = self.uniques.event(key);
                let of_unique = id.filter(|id| after.is_none_or(|after| *id > after));
                of_unique.into_iter().collect()
            }
        };
        let (mut events, mut budget) = (Vec::new(), Budget::new());
        for (at, id) in ids.into_iter().enumerate() {
            self.end_if_over(id, sink);
            let is_found = |entry: &&Entry<B>| match by {
                _ if entry.is_unconfirmed() => false,
                PeekBy::Unique(key) => self.uniques.event(key) == Some(id),
                PeekBy::Key(_) | PeekBy::All => true,
            };
            if let Some(entry) = self.entries.get(&id).filter(is_found) {
                budget.spend(entry);
                events.push(self.snapshot(id, entry));
            }
            if at + 1 == limit || budget.is_spent() {
                let next = Some(PeekCursor::new(id.to_bytes()));
                return Ok(Reply::Peeked(PeekPage { events, next }));
            }
        }
        Ok(Reply::Peeked(PeekPage { events, next: None }))
    }

    pub(super) fn read_dead<L: ChangeSink<Body = B>>(
        &mut self,
        after: Option<EventId>,
        limit: usize,
        sink: &mut L,
    ) -> Reply<B> {
        let limit = limit.clamp(1, BATCH_MAX);
        self.bury_beyond(after, limit + 1, sink);
        let (mut letters, mut budget) = (Vec::new(), Budget::new());
        let mut next = None;
        for id in self.dead.range(beyond(after)) {
            if letters.len() == limit || budget.is_spent() {
                next = letters
                    .last()
                    .map(|letter: &Snapshot<B>| letter.id)
                    .or(after);
                break;
            }
            if let Some(entry) = self.entries.get(id) {
                budget.spend(entry);
                letters.push(self.snapshot(*id, entry));
            }
        }
        Reply::Dead(DeadPage { letters, next })
    }

    /// Buries the first `many` events after an id that are beyond the bound of an operation, so that no
    /// page is without them.
    fn bury_beyond<L: ChangeSink<Body = B>>(
        &mut self,
        after: Option<EventId>,
        many: usize,
        sink: &mut L,
    ) {
        let beyond = self.overdue().chain(self.expired());
        let dead = beyond.filter(|(_, entry)| self.state_beyond(entry) == State::Dead);
        let ids = dead.map(|(id, _)| id);
        let mut ids: Vec<_> = ids.filter(|id| after.is_none_or(|it| *id > it)).collect();
        if ids.len() > many {
            ids.select_nth_unstable(many);
            ids.truncate(many);
        }
        ids.sort_unstable();
        for id in ids {
            self.end_if_over(id, sink);
        }
    }

    /// Counts events by state; unconfirmed ones are not counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let due = self.waiting.count_until_each([self.now_us].into_iter());
        let due = due.first().copied().unwrap_or_default();
        let mut stats = Stats {
            scheduled: self.waiting.scheduled_len() - due,
            ready: self.waiting.ready_len() + due,
            leased: self.nodes.leased(),
            dead: self.dead.len(),
            oldest_ready: self
                .oldest_ready_us()
                .map(|us| Timestamp::from_millis(us / 1_000)),
        };
        for (_, entry) in self.overdue() {
            stats.leased -= 1;
            match self.state_beyond(entry) {
                State::Dead => stats.dead += 1,
                State::Ready => stats.ready += 1,
                State::Scheduled => stats.scheduled += 1,
                _ => {}
            }
        }
        for (_, entry) in self.expired() {
            if entry.due.as_micros() <= self.now_us {
                stats.ready -= 1;
            } else {
                stats.scheduled -= 1;
            }
            stats.dead += usize::from(self.state_beyond(entry) == State::Dead);
        }
        stats
    }

    pub(super) fn forecast(&self, within: &[Duration]) -> Result<Vec<usize>> {
        check_spans(within)?;
        let ends_us = within.iter().map(|span| {
            let span_us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
            self.now_us.saturating_add(span_us)
        });
        let mut counts = self.waiting.count_until_each(ends_us.clone());
        let expired = self.expired_dues();
        for (count, end_us) in counts.iter_mut().zip(ends_us.clone()) {
            *count -= expired.partition_point(|due| due.as_micros() <= end_us);
        }
        // Leased ahead, and over: they wait for their time again.
        let leased = self.overdue().map(|(_, entry)| entry);
        for entry in leased.filter(|entry| self.state_beyond(entry) == State::Scheduled) {
            for (count, end_us) in counts.iter_mut().zip(ends_us.clone()) {
                *count += usize::from(entry.due.as_micros() <= end_us);
            }
        }
        Ok(counts)
    }

    fn snapshot(&self, id: EventId, entry: &Entry<B>) -> Snapshot<B> {
        let lease = self.leases.of(entry);
        let since_us = match entry.place() {
            Place::Ready(at) => self.waiting.moved_us(at),
            Place::Leased(_) => lease.map(|lease| lease.fetched_us),
            Place::Dead(at) => Some(at.as_micros()),
            Place::Unconfirmed | Place::Scheduled => None,
        };
        Snapshot {
            id,
            state: entry.state(),
            due: entry.due,
            tries: entry.tries,
            since: since_us.map(|us| Timestamp::from_millis(us / 1_000)),
            ended: None,
            holder: lease.map(|lease| lease.node),
            request: lease.map(|lease| lease.request),
            until: lease.and_then(|lease| lease.deadline),
            done_by: None,
            body: Some(entry.body.clone()),
        }
    }
}

/// Returns the range of everything greater than an id.
fn beyond(after: Option<EventId>) -> (Bound<EventId>, Bound<EventId>) {
    (
        after.map_or(Bound::Unbounded, Bound::Excluded),
        Bound::Unbounded,
    )
}

/// Returns the id after which a page begins.
fn id_of(cursor: &PeekCursor) -> Result<EventId> {
    let bytes = cursor.as_bytes().try_into();
    bytes.map(EventId::from_bytes).map_err(|_| {
        Error::invalid("the cursor of a peek is not from this store; pass the one of the last page")
    })
}

fn over<B>(finished: &Tombstone) -> Snapshot<B> {
    let settled = finished.settled.filter(|_| finished.state == State::Done);
    Snapshot {
        id: finished.id,
        state: finished.state,
        due: finished.due,
        tries: finished.tries,
        since: None,
        ended: None,
        holder: None,
        request: None,
        until: None,
        done_by: settled.map(|settled| (settled.node, settled.request)),
        body: None,
    }
}
