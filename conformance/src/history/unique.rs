//! The owners of unique keys in a history.
//!
//! While an event has a key, no push that keeps is accepted; a push that replaces takes the key,
//! and leaves only an already leased event beside it. An event that has lost its key in that way,
//! or because the key was taken when it was revived, does not get it back.

use std::collections::BTreeMap;

use super::event_history::EventHistory;
use super::promise::{Checked, Promise, broken};
use duly::EventId;
use duly::event::BucketId;

/// The unique keys of every bucket.
#[derive(Debug, Default)]
pub(super) struct UniqueKeyOwners {
    /// Events that were accepted with a key, and whether they still have it.
    members: BTreeMap<(BucketId, u64), Vec<(EventId, bool)>>,
    keys: BTreeMap<EventId, u64>,
}

type EventHistories = BTreeMap<EventId, EventHistory>;

impl UniqueKeyOwners {
    /// Checks the store's decision on a push with a unique key: the key, whether the push replaces,
    /// and the event because of which it was refused.
    pub(super) fn check_push(
        &mut self,
        id: EventId,
        (key, replaces, taken_by): (u64, bool, Option<EventId>),
        lives: &EventHistories,
    ) -> Checked {
        let members = self.members.entry((id.bucket(), key)).or_default();
        members.retain(|(other, _)| lives.get(other).is_some_and(|life| !life.is_at_rest()));
        if let Some(other) = taken_by {
            return if members.contains(&(other, true)) {
                Ok(())
            } else {
                broken(
                    Promise::Ids,
                    "a push was refused because of an event without its unique key",
                )
            };
        }
        for (other, has_key) in members.iter_mut() {
            if *has_key && !replaces {
                return broken(Promise::Ids, "a second event of a unique key was accepted");
            }
            let is_leased = lives.get(other).is_some_and(|life| life.lease.is_some());
            if *has_key && !is_leased {
                return broken(
                    Promise::Ids,
                    "an event replaced another one, which is still waiting",
                );
            }
            *has_key = false;
        }
        members.push((id, true));
        self.keys.insert(id, key);
        Ok(())
    }

    /// A dead letter is ready again, with its key if that is free.
    pub(super) fn revived(&mut self, id: EventId, lives: &EventHistories) {
        let Some(key) = self.keys.get(&id) else {
            return;
        };
        let members = self.members.entry((id.bucket(), *key)).or_default();
        members.retain(|(other, _)| {
            let is_there = lives.get(other).is_some_and(|life| !life.is_at_rest());
            *other != id && is_there
        });
        let is_free = !members.iter().any(|(_, has_key)| *has_key);
        members.push((id, is_free));
    }
}
