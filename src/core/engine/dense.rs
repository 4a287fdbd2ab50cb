//! An ordered map for millions of small entries: sorted chunks without empty room between entries.
//!
//! A B-tree of the standard library leaves a third to a half of its nodes empty; here a chunk has
//! at most an eighth more room than entries, and a search touches one chunk after the index of
//! chunks.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// The most entries of a chunk.
const CHUNK: usize = 128;
/// The least room that a chunk is given when it is full.
const ROOM_MIN: usize = 4;

/// A map ordered by key, with the operations that the engine needs.
#[derive(Clone, Debug)]
pub(super) struct DenseMap<K, V> {
    /// Sorted chunks by a lower bound of their keys, which is below the next bound. None is empty.
    chunks: BTreeMap<K, VecDeque<(K, V)>>,
    len: usize,
}

impl<K, V> Default for DenseMap<K, V> {
    fn default() -> Self {
        Self {
            chunks: BTreeMap::new(),
            len: 0,
        }
    }
}

impl<K: Copy + Ord> DenseMap<K, ()> {
    /// A set of keys, which are sorted and distinct.
    pub(super) fn of_sorted(keys: &[K]) -> Self {
        let chunks = keys.chunks(CHUNK).filter_map(|keys| {
            let chunk: Vec<_> = keys.iter().map(|key| (*key, ())).collect();
            Some((*keys.first()?, VecDeque::from(chunk)))
        });
        Self {
            chunks: chunks.collect(),
            len: keys.len(),
        }
    }
}

impl<K: Copy + Ord, V> DenseMap<K, V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let (_, chunk) = self.chunks.range(..=key).next_back()?;
        let at = place(chunk, key).ok()?;
        chunk.get(at).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (_, chunk) = self.chunks.range_mut(..=key).next_back()?;
        let at = place(chunk, key).ok()?;
        chunk.get_mut(at).map(|(_, value)| value)
    }

    pub(super) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Adds an entry; `false` if the key has one already, which stays.
    pub(super) fn insert(&mut self, key: K, value: V) -> bool {
        if let Some(mut last) = self.chunks.last_entry()
            && last
                .get()
                .back()
                .is_some_and(|(greatest, _)| *greatest < key)
        {
            let chunk = last.get_mut();
            if chunk.len() < CHUNK {
                add(chunk, chunk.len(), (key, value));
            } else {
                // What comes in ascending order leaves full chunks behind.
                self.chunks.insert(key, VecDeque::from([(key, value)]));
            }
            self.len += 1;
            return true;
        }
        let Some((_, chunk)) = self.chunks.range_mut(..=&key).next_back() else {
            self.insert_first(key, value);
            return true;
        };
        let Err(at) = place(chunk, &key) else {
            return false;
        };
        self.len += 1;
        if chunk.len() < CHUNK {
            add(chunk, at, (key, value));
            return true;
        }
        let mut upper = chunk.split_off(CHUNK / 2);
        chunk.shrink_to_fit();
        match at.saturating_sub(CHUNK / 2) {
            0 => add(chunk, at, (key, value)),
            at => add(&mut upper, at, (key, value)),
        }
        if let Some((bound, _)) = upper.front() {
            self.chunks.insert(*bound, upper);
        }
        true
    }

    /// Adds an entry below all bounds.
    fn insert_first(&mut self, key: K, value: V) {
        let mut chunk = match self.chunks.first_entry() {
            Some(first) if first.get().len() < CHUNK => first.remove(),
            _ => VecDeque::new(),
        };
        add(&mut chunk, 0, (key, value));
        self.chunks.insert(key, chunk);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let (bound, chunk) = self.chunks.range_mut(..=key).next_back()?;
        let at = place(chunk, key).ok()?;
        let (_, value) = chunk.remove(at)?;
        self.len -= 1;
        let bound = *bound;
        if chunk.is_empty() {
            self.chunks.remove(&bound);
        } else if chunk.capacity() > 2 * chunk.len() + ROOM_MIN {
            chunk.shrink_to_fit();
            self.merge(bound);
        }
        Some(value)
    }

    /// Merges a chunk with the next one or the one before, if both together are half of one.
    fn merge(&mut self, bound: K) {
        let before = self.chunks.range(..bound).next_back();
        let (before, mut from) = (before.map(|(bound, _)| *bound), self.chunks.range(bound..));
        let next = from.nth(1).map(|(bound, _)| *bound);
        for (lower, upper) in [(Some(bound), next), (before, Some(bound))] {
            let (Some(lower), Some(upper)) = (lower, upper) else {
                continue;
            };
            let len = |bound| self.chunks.get(&bound).map_or(0, VecDeque::len);
            if len(lower) + len(upper) > CHUNK / 2 {
                continue;
            }
            let moved = self.chunks.remove(&upper);
            if let (Some(chunk), Some(mut moved)) = (self.chunks.get_mut(&lower), moved) {
                chunk.append(&mut moved);
            }
            return;
        }
    }

    pub(super) fn first(&self) -> Option<(&K, &V)> {
        let (_, chunk) = self.chunks.first_key_value()?;
        chunk.front().map(|(key, value)| (key, value))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.range(Bound::Unbounded)
    }

    /// Returns the entries from a lower bound on, in order.
    pub(super) fn range(&self, from: Bound<K>) -> impl Iterator<Item = (&K, &V)> {
        let first = match from {
            Bound::Included(key) | Bound::Excluded(key) => {
                let first = self.chunks.range(..=key).next_back();
                first.map_or(Bound::Unbounded, |(bound, _)| Bound::Included(*bound))
            }
            Bound::Unbounded => Bound::Unbounded,
        };
        let is_before = move |key: &K| match from {
            Bound::Included(from) => *key < from,
            Bound::Excluded(from) => *key <= from,
            Bound::Unbounded => false,
        };
        let chunks = self.chunks.range((first, Bound::Unbounded));
        let entries = chunks.flat_map(move |(_, chunk)| {
            let at = chunk.partition_point(|(key, _)| is_before(key));
            chunk.range(at..)
        });
        entries.map(|(key, value)| (key, value))
    }
}

/// Returns where a key is in a chunk, or where it belongs.
fn place<K: Ord, V>(chunk: &VecDeque<(K, V)>, key: &K) -> Result<usize, usize> {
    chunk.binary_search_by(|(known, _)| known.cmp(key))
}

/// Adds an entry to a chunk, with little room for those that follow.
fn add<T>(chunk: &mut VecDeque<T>, at: usize, entry: T) {
    if chunk.len() == chunk.capacity() {
        let more = (chunk.len() / 8).max(ROOM_MIN);
        chunk.reserve_exact(more.min(CHUNK - chunk.len()));
    }
    chunk.insert(at, entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the map of the standard library.
    fn assert_same(dense: &DenseMap<u64, u64>, right: &BTreeMap<u64, u64>) {
        assert_eq!(dense.len(), right.len());
        assert!(dense.iter().eq(right.iter()));
        assert_eq!(dense.first(), right.first_key_value());
        assert!(dense.chunks.values().all(|chunk| !chunk.is_empty()));
    }

    #[test]
    fn it_is_an_ordered_map_whatever_the_order_of_changes() {
        let mut random = fastrand::Rng::with_seed(7);
        for spread in [300, 20_000] {
            let (mut dense, mut right) = (DenseMap::default(), BTreeMap::new());
            // Growing, at its size, and shrinking.
            for (round, inserts) in [0.9, 0.5, 0.1].into_iter().enumerate() {
                for step in 0..20_000 {
                    let key = random.u64(0..spread);
                    if random.f64() < inserts {
                        let is_new = !right.contains_key(&key);
                        assert_eq!(dense.insert(key, step), is_new);
                        right.entry(key).or_insert(step);
                    } else {
                        assert_eq!(dense.remove(&key), right.remove(&key), "round {round}");
                    }
                    let key = random.u64(0..spread);
                    assert_eq!(dense.get(&key), right.get(&key));
                    assert_eq!(dense.get_mut(&key), right.get_mut(&key));
                    if step % 500 == 0 {
                        assert_same(&dense, &right);
                        for from in [Bound::Included(key), Bound::Excluded(key)] {
                            let rest = right.range((from, Bound::Unbounded));
                            assert!(dense.range(from).eq(rest), "from {from:?}");
                        }
                    }
                }
            }
            for key in 0..spread {
                dense.remove(&key);
            }
            assert!(dense.is_empty() && dense.chunks.is_empty());
        }
    }

    #[test]
    fn a_set_of_sorted_keys_is_that_of_its_insertions() {
        for many in [0, 1, CHUNK as u64, 1_000] {
            let keys: Vec<u64> = (0..many).map(|key| 3 * key).collect();
            let (mut set, mut inserted) = (DenseMap::of_sorted(&keys), DenseMap::default());
            for key in &keys {
                assert!(inserted.insert(*key, ()) && !set.insert(*key, ()));
            }
            assert!(set.iter().eq(inserted.iter()) && set.len() == keys.len());
            assert!(set.insert(1, ()) && set.remove(&1).is_some());
        }
    }

    #[test]
    fn its_chunks_have_little_room_to_spare() {
        let mut random = fastrand::Rng::with_seed(7);
        let keys: Vec<u64> = (0..100_000).map(|_| random.u64(..)).collect();
        let mut ascending = keys.clone();
        ascending.sort_unstable();
        for keys in [&keys, &ascending] {
            let mut dense = DenseMap::default();
            let fill = |dense: &DenseMap<u64, ()>| {
                let room: usize = dense.chunks.values().map(VecDeque::capacity).sum();
                dense.len() as f64 / room as f64
            };
            for key in keys {
                dense.insert(*key, ());
            }
            assert!(fill(&dense) > 0.92, "{}", fill(&dense));
            for key in keys.iter().filter(|key| *key % 16 != 0) {
                dense.remove(key);
            }
            assert!(fill(&dense) > 0.45, "{}", fill(&dense));
            let per_chunk = dense.len() / dense.chunks.len();
            assert!(per_chunk > CHUNK / 8, "{per_chunk} entries a chunk");
        }
    }
}
