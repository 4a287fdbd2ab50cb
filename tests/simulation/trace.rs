//! The history of one world, and a number that tells it from any other.

use duly::EventId;
use duly_conformance::history::Entry;

use crate::rng::mix;

/// All that happened in one world, and a number that tells two histories apart.
#[derive(Debug, Default)]
pub struct Trace {
    entries: Vec<Entry>,
    hash: u64,
}

impl Trace {
    pub fn write(&mut self, entry: Entry) {
        self.fold(entry.at_us);
        self.fold(entry.store_us);
        if let Some(id) = entry.id {
            self.fold(id.entropy());
        }
        let mut hasher = Fold(self.hash);
        std::hash::Hash::hash(&entry.what, &mut hasher);
        self.hash = hasher.0;
        self.entries.push(entry);
    }

    /// Lets a number take part in the hash that is in no entry.
    pub fn fold(&mut self, value: u64) {
        self.hash = mix(self.hash ^ value).wrapping_add(0x9E37_79B9_7F4A_7C15);
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines of one event, and those that concern everything.
    pub fn of(&self, id: Option<EventId>) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(move |entry| id.is_none() || entry.id.is_none() || entry.id == id)
    }
}

/// A hasher without a secret, so that a hash means the same in every run.
struct Fold(u64);

impl std::hash::Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}
