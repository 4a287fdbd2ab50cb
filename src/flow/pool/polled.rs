//! A table of the pools' jobs that threads poll at the moment, read when threads are blocked.
//!
//! A thread writes into a cell of its own, which costs next to nothing; the cells are read only when
//! something is wrong.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

/// The cells of all threads that have polled a job.
static THREADS: Mutex<Vec<Weak<PollCell>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: Arc<PollCell> = registered();
}

/// The number of the pool in the upper half, 0 for none; in the lower one how many polls began.
type PollCell = CachePadded<AtomicU64>;

fn registered() -> Arc<PollCell> {
    let cell = Arc::new(PollCell::default());
    let mut threads = THREADS.lock();
    threads.retain(|cell| cell.strong_count() > 0); // threads that have ended
    threads.push(Arc::downgrade(&cell));
    cell
}

/// One poll of a job, until it is dropped.
pub(super) struct Poll {
    /// What the thread polled around it: the pool of a job that runs this one inside of its poll.
    outer: u64,
}

impl Poll {
    /// Notes that this thread polls a job of the pool with this number.
    #[inline]
    pub(super) fn of(pool: u32) -> Self {
        // A thread that ends has no cell any more.
        let outer = OWN.try_with(|cell| {
            let outer = cell.load(Relaxed);
            let polls = (outer as u32).wrapping_add(1);
            cell.store(u64::from(pool) << 32 | u64::from(polls), Relaxed);
            outer
        });
        Self {
            outer: outer.unwrap_or_default(),
        }
    }
}

impl Drop for Poll {
    #[inline]
    fn drop(&mut self) {
        let _ = OWN.try_with(|cell| {
            let polls = cell.load(Relaxed) & u64::from(u32::MAX);
            cell.store(self.outer >> 32 << 32 | polls, Relaxed);
        });
    }
}

/// The polls under way on all threads, to be compared with those of a moment later.
#[derive(Debug)]
pub(crate) struct PollSnapshot(Vec<(usize, u64)>);

impl PollSnapshot {
    /// Reads what each thread polls.
    pub(crate) fn take() -> Self {
        let threads = THREADS.lock();
        let cells = threads.iter().filter_map(Weak::upgrade);
        let polls = cells.map(|cell| (Arc::as_ptr(&cell).addr(), cell.load(Relaxed)));
        Self(polls.filter(|(_, poll)| poll >> 32 != 0).collect())
    }

    /// Returns the pools whose job is in the same poll as in `earlier`.
    pub(crate) fn same_as(&self, earlier: &Self) -> impl Iterator<Item = u32> {
        let same = self.0.iter().filter(|poll| earlier.0.contains(poll));
        same.map(|(_, poll)| (poll >> 32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_is_the_same_until_it_ends() {
        let seen = |earlier: &PollSnapshot, pool| {
            let now = PollSnapshot::take();
            now.same_as(earlier).any(|it| it == pool)
        };
        let poll = Poll::of(70_001);
        let earlier = PollSnapshot::take();
        assert!(seen(&earlier, 70_001));
        drop(Poll::of(70_002)); // of a job that this one runs
        assert!(!seen(&PollSnapshot::take(), 70_002));
        assert!(seen(&PollSnapshot::take(), 70_001), "it goes on");
        drop(poll);
        assert!(!seen(&earlier, 70_001));
        let _again = Poll::of(70_001);
        assert!(!seen(&earlier, 70_001), "another poll");
    }
}
