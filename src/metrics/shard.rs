//! Which part of what is written by many threads a thread writes to.
//!
//! A counter that several threads add to costs each of them a trip to the others' caches, and an
//! instruction that keeps them out. So what is counted for each event is in parts. Most threads
//! have one of their own for as long as they live, where adding is a load and a store; the others
//! share the rest, and add with care. A sum of all parts is what was counted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Parts with one thread each.
const OWN: usize = 8;
/// Parts of whatever is split so that threads do not write to the same place.
pub(crate) const SHARDS: usize = OWN * 2;

/// The part of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard(usize);

impl Shard {
    /// That of the calling thread.
    pub(crate) fn mine() -> Self {
        // A thread that ends may tell something after its place was given back.
        MINE.try_with(|place| place.0).unwrap_or(Self(SHARDS - 1))
    }

    /// The place of the part, below [`SHARDS`].
    pub(crate) fn at(self) -> usize {
        self.0
    }

    /// Changes a number of this part. Nothing but this may write to it.
    pub(crate) fn change(self, number: &AtomicU64, changed: impl Fn(u64) -> u64) {
        let relaxed = Ordering::Relaxed;
        if self.0 < OWN {
            // Who had the place before gave it back under the lock under which it was taken.
            number.store(changed(number.load(relaxed)), relaxed);
        } else {
            let _ = number.fetch_update(relaxed, relaxed, |now| Some(changed(now))); // always some
        }
    }

    /// Adds to a number of this part. Nothing but [`change`](Self::change) and this may write to it.
    pub(crate) fn add(self, number: &AtomicU64, more: u64) {
        self.change(number, |now| now.wrapping_add(more));
    }
}

/// What a thread holds while it lives.
struct Place(Shard);

/// Places of their own that no thread holds.
static FREE: Mutex<Vec<Shard>> = Mutex::new(Vec::new());
/// How many threads have found none of those.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Place = Place::take();
}

impl Place {
    fn take() -> Self {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shard) = free.pop() {
            return Self(shard);
        }
        let number = TAKEN.fetch_add(1, Ordering::Relaxed);
        Self(Shard(match number < OWN {
            true => number,
            false => OWN + number % OWN,
        }))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.0.0 < OWN {
            let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
            free.push(self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn threads_that_live_at_once_have_parts_of_their_own_and_the_rest_share() {
        let (all, seen) = (Barrier::new(OWN * 3), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..OWN * 3 {
                scope.spawn(|| {
                    let mine = Shard::mine();
                    assert_eq!(mine, Shard::mine(), "for as long as it lives");
                    seen.lock().expect("nobody panics").push(mine.at());
                    all.wait();
                });
            }
        });
        let seen = seen.into_inner().expect("nobody panics");
        assert!(seen.iter().all(|at| *at < SHARDS));
        let own: Vec<_> = seen.into_iter().filter(|at| *at < OWN).collect();
        let different: BTreeSet<_> = own.iter().collect();
        assert_eq!(different.len(), own.len(), "one was given to two: {own:?}");
    }

    #[test]
    fn nothing_is_lost_while_threads_come_and_go() {
        let parts: [AtomicU64; SHARDS] = std::array::from_fn(|_| AtomicU64::new(0));
        for _ in 0..20 {
            thread::scope(|scope| {
                for _ in 0..OWN * 2 {
                    scope.spawn(|| {
                        let mine = Shard::mine();
                        (0..1_000).for_each(|_| mine.add(&parts[mine.at()], 3));
                    });
                }
            });
        }
        let sum: u64 = parts.iter().map(|part| part.load(Ordering::Relaxed)).sum();
        assert_eq!(sum, 20 * 2 * OWN as u64 * 1_000 * 3);
    }
}
