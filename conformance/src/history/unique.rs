//! Which event has which unique key, as a history tells it.
//!
//! While an event has a key, no other one is accepted that wants to keep out; one that wants to
//! replace takes the key, and leaves beside it only what was leased when it came. An event that has
//! lost its key in that way, or because the key was taken when it was revived, does not get it back.

use std::collections::BTreeMap;

use super::life::Life;
use super::promise::{Promise, Verdict, broken};
use duly::EventId;
use duly::event::BucketId;

/// The unique keys of every bucket.
#[derive(Debug, Default)]
pub(super) struct Uniques {
    /// Events that were accepted with a key, and whether they still have it.
    members: BTreeMap<(BucketId, u64), Vec<(EventId, bool)>>,
    keys: BTreeMap<EventId, u64>,
}

type Lives = BTreeMap<EventId, Life>;

impl Uniques {
    /// The store has decided on a push with a unique key: the key, whether the push replaces, and
    /// which event has kept it out.
    pub(super) fn asked(
        &mut self,
        id: EventId,
        (key, replaces, taken_by): (u64, bool, Option<EventId>),
        lives: &Lives,
    ) -> Verdict {
        let members = self.members.entry((id.bucket(), key)).or_default();
        members.retain(|(other, _)| lives.get(other).is_some_and(|life| !life.is_at_rest()));
        if let Some(other) = taken_by {
            return match members.contains(&(other, true)) {
                true => Ok(()),
                false => broken(
                    Promise::Ids,
                    "a push was kept out by an event that does not have its unique key",
                ),
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
                    "an event was accepted in place of another one, which waits on",
                );
            }
            *has_key = false;
        }
        members.push((id, true));
        self.keys.insert(id, key);
        Ok(())
    }

    /// A dead letter is ready again, with its key if that is free.
    pub(super) fn revived(&mut self, id: EventId, lives: &Lives) {
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
