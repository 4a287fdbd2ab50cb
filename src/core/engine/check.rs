//! An invariant check of a bucket: each event in exactly one place, every counter right.

use crate::core::engine::bucket::Bucket;
use crate::core::engine::entry::{Entry, Place};
use crate::event::State;

impl<B: Clone> Bucket<B> {
    /// Checks all invariants; scans every event.
    ///
    /// Each id is in exactly one place; the index of that place has it and no other has; the leases
    /// of events and of nodes match; counters equal sets.
    ///
    /// # Errors
    ///
    /// The first violated invariant.
    pub fn check(&self) -> Result<(), String> {
        self.check_places()?;
        self.check_keys()?;
        self.check_uniques()?;
        self.waiting.check()?;
        let leases = self.entries.iter();
        let leases = leases.filter_map(|(id, entry)| Some((*id, self.leases.of(entry)?)));
        self.nodes.check(leases)?;
        self.leases.check(self.nodes.leased())?;
        self.dedup.check()?;
        match self.dedup.ids().find(|id| self.entries.contains_key(id)) {
            Some(id) => Err(format!("{id} has a tombstone but is live")),
            None => Ok(()),
        }
    }

    /// Checks that each index only names events in its place, and that the totals match.
    fn check_places(&self) -> Result<(), String> {
        for (due, id) in self.waiting.scheduled() {
            let entry = self.entries.get(&id);
            let same =
                entry.is_some_and(|entry| entry.place() == Place::Scheduled && entry.due == due);
            expect(same, || {
                format!("{id} is in the delay set but not scheduled")
            })?;
        }
        for (at, ready) in self.waiting.ready() {
            let entry = self.entries.get(&ready.id);
            let same = entry.is_some_and(|entry| entry.place() == Place::Ready(at));
            expect(same, || {
                format!("{} is in the ready list but not ready", ready.id)
            })?;
        }
        for id in &self.dead {
            let state = self.entries.get(id).map(|entry| entry.state());
            expect(state == Some(State::Dead), || {
                format!("{id} is indexed as dead but is not")
            })?;
        }
        let unconfirmed = self.entries.iter();
        let unconfirmed = unconfirmed.filter(|(_, entry)| entry.is_unconfirmed());
        expect(unconfirmed.count() == self.unconfirmed, || {
            "the counter of unconfirmed events is wrong".into()
        })?;
        let waiting = self.entries.iter().filter(|(_, entry)| entry.is_waiting());
        self.expiring
            .check(waiting.map(|(id, entry)| (*id, entry)))?;
        let waiting = self.waiting.scheduled_len() + self.waiting.ready_len();
        let indexed = waiting + self.nodes.leased() + self.dead.len() + self.unconfirmed;
        let (places, events) = (indexed, self.entries.len());
        expect(places == events, || {
            format!("{events} events have {places} index entries")
        })?;
        let spent = self
            .entries
            .iter()
            .find(|(_, entry)| entry.tries >= entry.attempts && entry.state() != State::Dead);
        match spent {
            Some((id, _)) => Err(format!("{id} has used up its attempts but is not dead")),
            None => Ok(()),
        }
    }

    /// Checks that each event with a key is found by it, and by no other.
    fn check_keys(&self) -> Result<(), String> {
        for (key, id) in &self.keys {
            let entry = self.entries.get(id);
            expect(entry.is_some_and(|entry| entry.key() == Some(key)), || {
                format!("{id} is indexed by a key that is not its own")
            })?;
        }
        let keyed = self.entries.iter();
        let keyed = keyed.filter(|(_, entry)| entry.key().is_some());
        let (keyed, found) = (keyed.count(), self.keys.len());
        expect(keyed == found, || {
            format!("{keyed} events have a key, but {found} are indexed")
        })
    }

    fn check_uniques(&self) -> Result<(), String> {
        for (unique, holder) in self.uniques.iter() {
            let (id, is_over) = (holder.id, holder.until.is_some());
            let entry = self
                .entries
                .get(&id)
                .filter(|entry| entry.state() != State::Dead);
            let owns = entry.is_some_and(|entry| entry.unique() == Some(unique));
            expect(owns || is_over, || {
                format!("{id} is indexed by a unique key that is not its own")
            })?;
        }
        let is_unconfirmed = |id| self.entries.get(&id).is_some_and(Entry::is_unconfirmed);
        self.uniques.check(is_unconfirmed)
    }
}

fn expect(so: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if so { Ok(()) } else { Err(otherwise()) }
}
