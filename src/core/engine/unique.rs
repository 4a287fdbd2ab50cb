//! Unique keys: which event has which, and which stay taken after their event is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::core::op::HOLDS_MAX;
use crate::event::EventId;
use crate::time::Timestamp;

/// The most expired keys that are freed when another one begins to stay taken.
const EXPIRED_MAX: usize = 2;
/// The most expired keys that one look at the bucket frees.
const SWEPT_MAX: usize = 1_000;

/// The owner of a unique key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyOwner {
    pub(super) id: EventId,
    /// Until when the key stays taken by an event that is done; `None`: the event waits or runs.
    pub(super) until: Option<Timestamp>,
}

/// The unique keys of a bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Uniques {
    taken: BTreeMap<Arc<str>, KeyOwner>,
    /// The keys that stay taken, by expiry.
    holds: BTreeSet<(Timestamp, Arc<str>)>,
    /// Unconfirmed events that took their key from a running one, and that one.
    from: BTreeMap<EventId, EventId>,
}

impl Uniques {
    /// Returns the owner of a key, unless that has expired.
    pub(super) fn holder(&self, key: &str, now: Timestamp) -> Option<KeyOwner> {
        let holder = self.taken.get(key).copied()?;
        let is_over = holder.until.is_some_and(|until| until <= now);
        (!is_over).then_some(holder)
    }

    /// Returns the waiting or running event that has the key.
    pub(super) fn event(&self, key: &str) -> Option<EventId> {
        let holder = self.taken.get(key)?;
        holder.until.is_none().then_some(holder.id)
    }

    /// Gives the key to an event; returns whether an event that is done had it.
    pub(super) fn take(&mut self, key: &Arc<str>, id: EventId) -> bool {
        let holder = KeyOwner { id, until: None };
        let before = self.taken.insert(Arc::clone(key), holder);
        let until = before.and_then(|before| before.until);
        until.is_some_and(|until| self.holds.remove(&(until, Arc::clone(key))))
    }

    /// Notes that an unconfirmed event took its key from a running one.
    pub(super) fn taken_from(&mut self, id: EventId, before: EventId) {
        self.from.insert(id, before);
    }

    /// Ends the unconfirmed state of an event; returns the event from which it took its key.
    pub(super) fn settled(&mut self, id: EventId) -> Option<EventId> {
        self.from.remove(&id)
    }

    /// Frees a key, unless another event has taken it over.
    pub(super) fn free(&mut self, key: &str, id: EventId) {
        let its = KeyOwner { id, until: None };
        if self.taken.get(key) == Some(&its) {
            self.taken.remove(key);
        }
    }

    /// Keeps the key of an event that is done, unless another event has taken it over; returns
    /// whether it does, and the keys that are freed for it.
    pub(super) fn hold(
        &mut self,
        key: &Arc<str>,
        id: EventId,
        (now, until): (Timestamp, Timestamp),
    ) -> (bool, Vec<Arc<str>>) {
        match self.taken.get_mut(key) {
            Some(holder) if holder.id == id => holder.until = Some(until),
            _ => return (false, Vec::new()),
        }
        let mut let_go = Vec::new();
        while let Some((first, name)) = self.holds.first().cloned()
            && (self.holds.len() >= HOLDS_MAX || first <= now && let_go.len() < EXPIRED_MAX)
        {
            self.holds.remove(&(first, Arc::clone(&name)));
            self.taken.remove(&name);
            let_go.push(name);
        }
        self.holds.insert((until, Arc::clone(key)));
        (true, let_go)
    }

    /// Frees the keys whose time is over, a bounded number at a time, and returns them.
    pub(super) fn expire(&mut self, now: Timestamp) -> Vec<Arc<str>> {
        let mut let_go = Vec::new();
        while let Some((first, name)) = self.holds.first().cloned()
            && first <= now
            && let_go.len() < SWEPT_MAX
        {
            self.holds.remove(&(first, Arc::clone(&name)));
            self.taken.remove(&name);
            let_go.push(name);
        }
        let_go
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Restores a key that stayed taken when the process ended.
    pub(super) fn restore(&mut self, key: Arc<str>, id: EventId, until: Timestamp) {
        let holder = KeyOwner {
            id,
            until: Some(until),
        };
        self.holds.insert((until, Arc::clone(&key)));
        self.taken.insert(key, holder);
    }

    /// Frees keys that stay taken so much earlier, as `by` says of the event that had each; returns
    /// them, with when they are free.
    pub(super) fn shorten(
        &mut self,
        by: impl Fn(EventId) -> Option<Duration>,
    ) -> Vec<(Arc<str>, EventId, Timestamp)> {
        let mut shortened = Vec::new();
        for (key, holder) in &mut self.taken {
            if let Some(before) = holder.until
                && let Some(by) = by(holder.id)
            {
                let until = before - by;
                holder.until = Some(until);
                self.holds.remove(&(before, Arc::clone(key)));
                self.holds.insert((until, Arc::clone(key)));
                shortened.push((Arc::clone(key), holder.id, until));
            }
        }
        shortened
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &KeyOwner)> {
        self.taken.iter()
    }

    /// Checks that the expiry index matches the keys, and that only unconfirmed events are noted as
    /// such.
    pub(super) fn check(&self, is_unconfirmed: impl Fn(EventId) -> bool) -> Result<(), String> {
        if let Some(id) = self.from.keys().find(|id| !is_unconfirmed(**id)) {
            return Err(format!(
                "{id} has taken a unique key and is not unconfirmed"
            ));
        }
        let held = self.taken.iter().filter_map(|(key, holder)| {
            let until = holder.until?;
            Some((until, Arc::clone(key)))
        });
        if held.collect::<BTreeSet<_>>() == self.holds {
            Ok(())
        } else {
            Err("the expiry index differs from the unique keys that stay taken".into())
        }
    }
}
