//! A list of watchers, each held weakly.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use crate::error::{Error, ErrorKind, Result};

/// The most watchers at a time: every change that is notified calls all of them.
const WATCHERS_MAX: usize = 256;

/// The watchers of a store, which does not keep them alive: one is gone as soon as its bus drops it.
pub(crate) struct Watchers<W: ?Sized>(RwLock<Vec<Weak<W>>>);

impl<W: ?Sized> Watchers<W> {
    /// Registers `watcher`; the same one only once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`] beside [`WATCHERS_MAX`] others that are alive.
    pub(crate) fn add(&self, watcher: Weak<W>) -> Result<()> {
        let mut watchers = self.0.write();
        watchers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&watcher));
        if watchers.len() >= WATCHERS_MAX {
            return Err(Error::new(
                ErrorKind::Full,
                format!(
                    "{WATCHERS_MAX} watchers use this store already, which is the limit: each bus \
                     has one for its handlers, one where it leases and one for its journal; shut \
                     down a bus, or use one bus in several places"
                ),
            ));
        }
        watchers.push(watcher);
        Ok(())
    }

    /// Calls `what` with each watcher that is alive, without the lock.
    pub(crate) fn tell(&self, what: impl Fn(&W)) {
        let alive: Vec<Arc<W>> = {
            let watchers = self.0.read();
            watchers.iter().filter_map(Weak::upgrade).collect()
        };
        for watcher in alive {
            what(&watcher);
        }
    }

    /// Returns how many are alive.
    #[cfg(test)]
    pub(crate) fn alive(&self) -> usize {
        let watchers = self.0.read();
        let is_alive = |watcher: &&Weak<W>| watcher.strong_count() > 0;
        watchers.iter().filter(is_alive).count()
    }
}

impl<W: ?Sized> Default for Watchers<W> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<W: ?Sized> fmt::Debug for Watchers<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_watcher_that_is_gone_makes_room_and_a_living_one_is_never_dropped() {
        let watchers = Watchers::<AtomicUsize>::default();
        for _ in 0..10 * WATCHERS_MAX {
            let short = Arc::new(AtomicUsize::new(0));
            watchers.add(Arc::downgrade(&short)).unwrap();
        }
        let living: Vec<_> = (0..WATCHERS_MAX)
            .map(|_| Arc::new(AtomicUsize::new(0)))
            .collect();
        for watcher in living.iter().chain(&living[..1]) {
            let again = watchers.add(Arc::downgrade(watcher));
            assert!(again.is_ok(), "the same one counts once");
        }
        let one_more = Arc::new(AtomicUsize::new(0));
        let refused = watchers.add(Arc::downgrade(&one_more)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
        watchers.tell(|watcher| {
            watcher.fetch_add(1, Ordering::Relaxed);
        });
        let count = |watcher: &Arc<AtomicUsize>| watcher.load(Ordering::Relaxed);
        assert!(living.iter().all(|watcher| count(watcher) == 1));
        assert_eq!((count(&one_more), watchers.alive()), (0, WATCHERS_MAX));
    }
}
