//! Checks of unique keys as clients and records report them: no two events had one at the same
//! time, and no push was refused because of an event that had ended.

use std::collections::BTreeMap;

use super::entry::{Entry, EntryKind};
use super::promise::{BrokenPromise, Promise};
use duly::EventId;
use duly::event::BucketId;
use duly::records::Outcome;

/// The results of pushes with unique keys, and when the events ended.
///
/// Keys with replacing pushes are left out: a running event then continues beside the new one.
#[derive(Debug, Default)]
pub(super) struct UniqueKeyClaims {
    keys: BTreeMap<(BucketId, u64), Vec<Claim>>,
    asked_us: BTreeMap<EventId, u64>,
    ended_us: BTreeMap<EventId, u64>,
    /// When events first became dead letters: their keys were free from then on, and a revived
    /// event has its key again only if it is free.
    buried_us: BTreeMap<EventId, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    id: EventId,
    replaces: bool,
    taken_by: Option<EventId>,
    answered_us: u64,
}

impl UniqueKeyClaims {
    pub(super) fn read(&mut self, id: EventId, entry: &Entry) {
        match entry.what {
            EntryKind::PushAsked { .. } => {
                self.asked_us.entry(id).or_insert(entry.store_us);
            }
            // The last record is the event's end, except for an edit, which ends nothing.
            EntryKind::Recorded {
                outcome: Outcome::Edited,
                ..
            } => {}
            EntryKind::Recorded { outcome, .. } => {
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
            EntryKind::UniqueAsked {
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

    /// Returns the violations.
    pub(super) fn broken(&self) -> Vec<BrokenPromise> {
        let mut broken = Vec::new();
        for claims in self.keys.values() {
            if claims.iter().any(|claim| claim.replaces) {
                continue;
            }
            for (at, claim) in claims.iter().enumerate() {
                let text = match claim.taken_by {
                    Some(other) if self.was_over(other, claim.id) => {
                        "a push was refused because of an event that had ended"
                    }
                    None if claims[..at].iter().any(|other| self.overlap(claim, other)) => {
                        "two events had one unique key at the same time"
                    }
                    _ => continue,
                };
                broken.push(BrokenPromise::new(Promise::Ids, Some(claim.id), text));
            }
        }
        broken
    }

    /// Returns whether an event had ended before the push of another one was sent.
    fn was_over(&self, other: EventId, id: EventId) -> bool {
        let (ended, sent) = (self.ended_us.get(&other), self.asked_us.get(&id));
        ended.zip(sent).is_some_and(|(ended, sent)| ended < sent)
    }

    /// Returns whether each of two accepted events ended only after the other was confirmed.
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
