//! Which part of what is written by many threads a thread writes to.
//!
//! A counter that several threads add to costs each of them a trip to the others' caches, and an
//! instruction that keeps them out. So what is counted for each event is in parts. Most threads
//! have one of their own for as long as they live, where adding is a load and a store; the others
//! share the rest, and add with care. A sum of all parts is what was counted.

#[cfg(loom)]
use loom::sync::{Mutex, atomic::AtomicU64};
#[cfg(not(loom))]
use std::sync::{Mutex, atomic::AtomicU64};

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

/// Parts with one thread each; of a model, few enough for every interleaving.
const OWN: usize = if cfg!(loom) { 1 } else { 8 };
/// Parts of whatever is split so that threads do not write to the same place.
pub(crate) const SHARDS: usize = OWN * 2;

/// A part, of a thread or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard(usize);

impl Shard {
    /// The place of the part, below [`SHARDS`].
    pub(crate) fn at(self) -> usize {
        self.0
    }

    /// Changes a number of this part. Nothing but this may write to it.
    pub(crate) fn change(self, number: &AtomicU64, changed: impl Fn(u64) -> u64) {
        if self.0 < OWN {
            // Who had the part before gave it back under the lock under which it was taken.
            number.store(changed(number.load(Relaxed)), Relaxed);
        } else {
            let _ = number.fetch_update(Relaxed, Relaxed, |now| Some(changed(now))); // always some
        }
    }

    /// Adds to a number of this part. Nothing but [`change`](Self::change) and this may write to it.
    pub(crate) fn add(self, number: &AtomicU64, more: u64) {
        self.change(number, |now| now.wrapping_add(more));
    }
}

/// Who has which part. Checked in every interleaving by `tests/loom`.
#[derive(Debug)]
pub(crate) struct Shards(Mutex<Given>);

#[derive(Debug)]
struct Given {
    /// Parts with one thread each that were given back.
    free: Vec<Shard>,
    /// How many parts were given that nobody had before.
    new: usize,
}

impl Shards {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self(Mutex::new(Given::NONE))
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Given::NONE))
    }

    /// A part for a thread: one that no other has, or one that it shares.
    pub(crate) fn take(&self) -> Shard {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given.free.pop().unwrap_or_else(|| {
            let number = given.new;
            given.new += 1;
            match number < OWN {
                true => Shard(number),
                false => Shard(OWN + number % OWN),
            }
        })
    }

    /// Takes a part back that its thread adds nothing to any more.
    pub(crate) fn give_back(&self, shard: Shard) {
        if shard.0 < OWN {
            let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            given.free.push(shard);
        }
    }
}

impl Given {
    const NONE: Self = Self {
        free: Vec::new(),
        new: 0,
    };
}

#[cfg(not(loom))]
mod mine {
    use super::{SHARDS, Shard, Shards};

    static SHARDS_OF_THREADS: Shards = Shards::new();

    thread_local! {
        static MINE: Mine = Mine(SHARDS_OF_THREADS.take());
    }

    /// What a thread holds while it lives.
    struct Mine(Shard);

    impl Drop for Mine {
        fn drop(&mut self) {
            SHARDS_OF_THREADS.give_back(self.0);
        }
    }

    impl Shard {
        /// That of the calling thread.
        pub(crate) fn mine() -> Self {
            // A thread that ends may tell something after it gave its part back: in a shared one.
            MINE.try_with(|mine| mine.0).unwrap_or(Self(SHARDS - 1))
        }
    }
}

#[cfg(all(test, not(loom)))]
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
        let sum: u64 = parts.iter().map(|part| part.load(Relaxed)).sum();
        assert_eq!(sum, 20 * 2 * OWN as u64 * 1_000 * 3);
    }
}
