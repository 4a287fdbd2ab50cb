//! The expiry index of a bucket: which waiting event is of no use from when on.

use std::ops::Bound;

use crate::core::engine::dense::DenseMap;
use crate::core::engine::entry::Entry;
use crate::event::EventId;

/// The waiting events that expire, by the first microsecond in which they are of no use.
#[derive(Clone, Debug, Default)]
pub(super) struct Expiring {
    order: DenseMap<ExpiryKey, ()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ExpiryKey {
    at_us: u64,
    id: EventId,
}

impl Expiring {
    /// Adds an event that waits from now on, if it ever expires.
    pub(super) fn add<B>(&mut self, id: EventId, entry: &Entry<B>) {
        if let Some(at_us) = entry.stale_from_us() {
            self.order.insert(ExpiryKey { at_us, id }, ());
        }
    }

    /// Removes an event that no longer waits, or is about to have another due time.
    pub(super) fn remove<B>(&mut self, id: EventId, entry: &Entry<B>) {
        if let Some(at_us) = entry.stale_from_us() {
            self.order.remove(&ExpiryKey { at_us, id });
        }
    }

    /// Replaces the index by one of all these waiting events.
    pub(super) fn replace<'a, B: 'a>(
        &mut self,
        waiting: impl Iterator<Item = (EventId, &'a Entry<B>)>,
    ) {
        let keys = waiting.filter_map(|(id, entry)| {
            let at_us = entry.stale_from_us()?;
            Some(ExpiryKey { at_us, id })
        });
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        self.order = DenseMap::of_sorted(&keys);
    }

    /// Returns the events that are of no use at `now_us`, the first to expire first.
    pub(super) fn until(&self, now_us: u64) -> impl Iterator<Item = EventId> + '_ {
        let all = self.order.range(Bound::Unbounded).map(|(key, ())| *key);
        all.take_while(move |key| key.at_us <= now_us)
            .map(|key| key.id)
    }

    pub(super) fn has_until(&self, now_us: u64) -> bool {
        self.order
            .first()
            .is_some_and(|(key, ())| key.at_us <= now_us)
    }

    /// Checks that the index has exactly these waiting events.
    pub(super) fn check<'a, B: 'a>(
        &self,
        waiting: impl Iterator<Item = (EventId, &'a Entry<B>)>,
    ) -> Result<(), String> {
        let mut right = Self::default();
        right.replace(waiting);
        if right.order.iter().eq(self.order.iter()) {
            Ok(())
        } else {
            Err("the expiry index differs from the waiting events that expire".into())
        }
    }
}
