//! The start window: how many handler starts a queue announces in advance.

use std::time::Duration;

use crate::time::Mono;

/// The least number for each worker.
const EACH: usize = 4;
/// The window grows up to this many times its minimum.
const GROWTH: usize = 64;
/// The window is halved after this long without need for it.
const HALVED_AFTER: Duration = Duration::from_secs(1);

/// The most unfinished events of a queue on whose leases handlers may start. They all lose an
/// attempt when this node dies; a larger window needs fewer calls to the store.
///
/// The window doubles whenever workers idle while due events wait for the store's acknowledgement,
/// so fast handlers seldom wait, and slow ones have few events announced.
#[derive(Debug)]
pub(crate) struct StartWindow {
    /// The minimum for any number of workers.
    floor: usize,
    least: usize,
    size: usize,
    changed: Mono,
    /// Starts were acknowledged since it last grew.
    may_grow: bool,
}

impl StartWindow {
    pub(crate) fn new(floor: usize) -> Self {
        Self {
            floor,
            least: floor,
            size: floor,
            changed: Mono::default(),
            may_grow: false,
        }
    }

    /// Sets how many handlers run at once.
    pub(crate) fn resize(&mut self, workers: usize) {
        self.least = workers.saturating_mul(EACH).max(self.floor);
        self.size = self.size.clamp(self.least, self.most());
    }

    fn most(&self) -> usize {
        self.least.saturating_mul(GROWTH)
    }

    /// Returns how many more may be announced beside `used`.
    pub(crate) fn room(&self, used: usize) -> usize {
        self.size.saturating_sub(used)
    }

    /// Returns whether it is time to announce more.
    pub(crate) fn is_low(&self, used: usize) -> bool {
        used <= self.size / 2
    }

    /// The store acknowledged starts.
    pub(crate) fn acknowledged(&mut self) {
        self.may_grow = true;
    }

    /// Workers idle while due events wait for the store's acknowledgement.
    pub(crate) fn ran_dry(&mut self, now: Mono) {
        if self.may_grow {
            self.size = self.size.saturating_mul(2).min(self.most());
            self.may_grow = false;
            self.changed = now;
        }
    }

    /// Halves the window if it was not needed for a while.
    pub(crate) fn decay(&mut self, now: Mono) {
        if self.size > self.least && now.since(self.changed) >= HALVED_AFTER {
            self.size = (self.size / 2).max(self.least);
            self.changed = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_once_for_each_word_of_the_store_and_shrinks_again() {
        let at = |ms: u64| Mono::default() + Duration::from_millis(ms);
        let mut window = StartWindow::new(64);
        window.resize(4);
        assert_eq!((window.room(0), window.room(70)), (64, 0));
        window.ran_dry(at(1));
        assert_eq!(window.room(0), 64, "nothing was announced");
        for (ms, size) in [
            (2, 128),
            (3, 256),
            (4, 512),
            (5, 1_024),
            (6, 2_048),
            (7, 4_096),
            (8, 4_096),
        ] {
            window.acknowledged();
            window.ran_dry(at(ms));
            window.ran_dry(at(ms));
            assert_eq!(window.room(0), size);
        }
        window.decay(at(1_007));
        assert_eq!(window.room(0), 4_096);
        for (ms, size) in [
            (1_009, 2_048),
            (1_010, 2_048),
            (2_010, 1_024),
            (9_000, 512),
            (10_000, 256),
            (11_000, 128),
            (12_000, 64),
            (13_000, 64),
        ] {
            window.decay(at(ms));
            assert_eq!(window.room(0), size);
        }
        window.resize(100);
        assert_eq!(window.room(0), 400);
        assert!(window.is_low(200) && !window.is_low(201));
    }
}
