//! Unique keys as clients and records tell of them: no two events had one at the same time, and no
//! push was kept out by an event that was over.

use std::collections::BTreeMap;

use super::entry::{Entry, What};
use super::promise::{Broken, Promise};
use duly::EventId;
use duly::event::BucketId;
use duly::records::Outcome;

/// What pushers were told about unique keys, and when the events ended.
///
/// Keys under which somebody replaces are left out: one that runs then goes on beside the new one.
#[derive(Debug, Default)]
pub(super) struct Claims {
    keys: BTreeMap<(BucketId, u64), Vec<Claim>>,
    asked_us: BTreeMap<EventId, u64>,
    ended_us: BTreeMap<EventId, u64>,
    /// When events became dead letters for the first time: their keys were free from then on, and
    /// one that is revived has its key again only where nobody has it.
    buried_us: BTreeMap<EventId, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    id: EventId,
    replaces: bool,
    taken_by: Option<EventId>,
    answered_us: u64,
}

impl Claims {
    pub(super) fn read(&mut self, id: EventId, entry: &Entry) {
        match entry.what {
            What::PushAsked { .. } => {
                self.asked_us.entry(id).or_insert(entry.store_us);
            }
            // The last one is the event's end, but for an edit, which ends nothing.
            What::Recorded {
                outcome: Outcome::Edited,
                ..
            } => {}
            What::Recorded { outcome, .. } => {
                let before = self.ended_us.insert(id, entry.store_us);
                let buried_us = match outcome {
                    Outcome::Buried => Some(entry.store_us),
                    Outcome::Revived => before,
                    _ => None,
                };
                if let Some(buried_us) = buried_us {
                    self.buried_us.entry(id).or_insert(buried_us);
                }
            }
            What::UniqueAsked {
                key,
                replaces,
                taken_by,
            } => {
                let claims = self.keys.entry((id.bucket(), key)).or_default();
                claims.push(Claim {
                    id,
                    replaces,
                    taken_by,
                    answered_us: entry.store_us,
                });
            }
            _ => {}
        }
    }

    /// What does not fit.
    pub(super) fn broken(&self) -> Vec<Broken> {
        let mut broken = Vec::new();
        for claims in self.keys.values() {
            if claims.iter().any(|claim| claim.replaces) {
                continue;
            }
            for (at, claim) in claims.iter().enumerate() {
                let text = match claim.taken_by {
                    Some(other) if self.was_over(other, claim.id) => {
                        "a push was kept out by an event that was over"
                    }
                    None if claims[..at].iter().any(|other| self.overlap(claim, other)) => {
                        "two events had one unique key at the same time"
                    }
                    _ => continue,
                };
                broken.push(Broken::new(Promise::Ids, Some(claim.id), text));
            }
        }
        broken
    }

    /// Whether an event had ended before the push of another one was sent.
    fn was_over(&self, other: EventId, id: EventId) -> bool {
        let (ended, asked) = (self.ended_us.get(&other), self.asked_us.get(&id));
        ended.zip(asked).is_some_and(|(ended, asked)| ended < asked)
    }

    /// Whether each of two accepted events ended only after the other was answered to be there.
    fn overlap(&self, one: &Claim, other: &Claim) -> bool {
        let outlives = |one: &Claim, other: &Claim| {
            let buried = self.buried_us.get(&one.id);
            let ended = buried.or_else(|| self.ended_us.get(&one.id));
            ended.is_some_and(|ended| *ended > other.answered_us)
        };
        let is_other = one.id != other.id && other.taken_by.is_none();
        is_other && outlives(one, other) && outlives(other, one)
    }
}
