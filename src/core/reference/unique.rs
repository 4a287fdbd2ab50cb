//! Which event has which unique key, and which keys stay taken after the end of theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::core::op::{HOLDS_MAX, Ledger};
use crate::core::reference::Bucket;
use crate::core::reference::entry::Entry;
use crate::event::EventId;
use crate::time::Timestamp;

/// How many holds that are over one that begins removes at most.
const EXPIRED_MAX: usize = 2;

/// Who has a unique key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) id: EventId,
    /// Until when it stays taken, of an event that is done; `None`: it waits or runs.
    pub(super) until: Option<Timestamp>,
}

impl<B: Clone> Bucket<B> {
    /// An event that is gone is found by its key no more.
    pub(super) fn free_key(&mut self, id: EventId, entry: &Entry<B>) {
        if let Some(key) = entry.key() {
            self.keys.remove(&(Arc::clone(key), id));
        }
    }

    /// The unique key is free again, unless another event has taken it over.
    pub(super) fn free_unique(&mut self, id: EventId, unique: Option<&Arc<str>>) {
        if let Some(unique) = unique {
            self.uniques.free(unique, id);
        }
    }

    /// The unique key of an event that is done stays taken, unless another one has taken it over.
    pub(super) fn hold_unique<L: Ledger<Body = B>>(
        &mut self,
        id: EventId,
        unique: Option<&Arc<str>>,
        period: Duration,
        ledger: &mut L,
    ) {
        let (Some(unique), now) = (unique, self.now()) else {
            return;
        };
        let until = now + period;
        let (is_held, let_go) = self.uniques.hold(unique, id, (now, until));
        for key in let_go {
            ledger.unique_held(&self.key, &key, None);
        }
        if is_held {
            ledger.unique_held(&self.key, unique, Some((id, until)));
        }
    }
}

/// The unique keys of a bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Uniques {
    taken: BTreeMap<Arc<str>, Holder>,
    /// The keys of events that are done, the one that is free first in front.
    holds: BTreeSet<(Timestamp, Arc<str>)>,
    /// Held events that took their key from one that runs, and from which.
    from: BTreeMap<EventId, EventId>,
}

impl Uniques {
    /// Who has the key, unless that is over by now.
    pub(super) fn holder(&self, key: &str, now: Timestamp) -> Option<Holder> {
        let holder = self.taken.get(key).copied()?;
        let is_over = holder.until.is_some_and(|until| until <= now);
        (!is_over).then_some(holder)
    }

    /// The event that waits or runs and has the key.
    pub(super) fn event(&self, key: &str) -> Option<EventId> {
        let holder = self.taken.get(key)?;
        holder.until.is_none().then_some(holder.id)
    }

    /// An event has the key from now on; answers whether one that is done had it.
    pub(super) fn take(&mut self, key: &Arc<str>, id: EventId) -> bool {
        let holder = Holder { id, until: None };
        let before = self.taken.insert(Arc::clone(key), holder);
        let until = before.and_then(|before| before.until);
        until.is_some_and(|until| self.holds.remove(&(until, Arc::clone(key))))
    }

    /// A held event took its key from one that runs.
    pub(super) fn taken_from(&mut self, id: EventId, before: EventId) {
        self.from.insert(id, before);
    }

    /// A held event is held no more; answers from whom it had its key.
    pub(super) fn settled(&mut self, id: EventId) -> Option<EventId> {
        self.from.remove(&id)
    }

    /// The key is free again, unless another event has taken it over.
    pub(super) fn free(&mut self, key: &str, id: EventId) {
        let its = Holder { id, until: None };
        if self.taken.get(key) == Some(&its) {
            self.taken.remove(key);
        }
    }

    /// An event is done and its key stays taken, unless another one has taken it over; answers
    /// whether it does, and which keys are let go for it.
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

    /// Takes up a key that stayed taken when the process ended.
    pub(super) fn restore(&mut self, key: Arc<str>, id: EventId, until: Timestamp) {
        let holder = Holder {
            id,
            until: Some(until),
        };
        self.holds.insert((until, Arc::clone(&key)));
        self.taken.insert(key, holder);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Holder)> {
        self.taken.iter()
    }

    /// Whether the order of the holds is that of the keys.
    pub(super) fn check(&self) -> Result<(), String> {
        let held = self.taken.iter().filter_map(|(key, holder)| {
            let until = holder.until?;
            Some((until, Arc::clone(key)))
        });
        match held.collect::<BTreeSet<_>>() == self.holds {
            true => Ok(()),
            false => Err("keys that stay taken and their order differ".into()),
        }
    }
}
