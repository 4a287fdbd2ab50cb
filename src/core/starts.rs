//! How many starts a queue announces before they happen.

use std::time::Duration;

use crate::time::Mono;

/// The least for each worker.
const EACH: usize = 4;
/// The window grows up to so many times the least.
const GROWTH: usize = 16;
/// It is halved after so long without a need for it.
const HALVED_AFTER: Duration = Duration::from_secs(1);

/// The most events of a queue on whose leases handlers may start and have not ended: so many lose an
/// attempt when this node dies, and the more they are, the fewer calls tell the store of them.
///
/// It doubles whenever workers had nothing to do while due events waited for the store's word, so
/// fast handlers wait for it now and then only, and slow ones have few events announced.
#[derive(Debug)]
pub(crate) struct StartWindow {
    /// The least for any number of workers.
    floor: usize,
    least: usize,
    size: usize,
    changed: Mono,
    /// Something was announced since it grew.
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

    /// So many handlers run at once from now on.
    pub(crate) fn resize(&mut self, workers: usize) {
        self.least = workers.saturating_mul(EACH).max(self.floor);
        self.size = self.size.clamp(self.least, self.most());
    }

    fn most(&self) -> usize {
        self.least.saturating_mul(GROWTH)
    }

    /// How many more may be announced beside `used`.
    pub(crate) fn room(&self, used: usize) -> usize {
        self.size.saturating_sub(used)
    }

    /// Whether so few are left that it is time for more.
    pub(crate) fn is_low(&self, used: usize) -> bool {
        used <= self.size / 2
    }

    /// The store has acknowledged starts.
    pub(crate) fn acknowledged(&mut self) {
        self.may_grow = true;
    }

    /// Workers have nothing to do, and due events wait for the store's word.
    pub(crate) fn ran_dry(&mut self, now: Mono) {
        if self.may_grow {
            self.size = self.size.saturating_mul(2).min(self.most());
            self.may_grow = false;
            self.changed = now;
        }
    }

    /// Halves it if it was not needed for a while.
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
        for (ms, size) in [(2, 128), (3, 256), (4, 512), (5, 1_024), (6, 1_024)] {
            window.acknowledged();
            window.ran_dry(at(ms));
            window.ran_dry(at(ms));
            assert_eq!(window.room(0), size);
        }
        window.decay(at(1_005));
        assert_eq!(window.room(0), 1_024);
        for (ms, size) in [
            (1_007, 512),
            (1_008, 512),
            (2_008, 256),
            (9_000, 128),
            (10_000, 64),
        ] {
            window.decay(at(ms));
            assert_eq!(window.room(0), size);
        }
        window.resize(100);
        assert_eq!(window.room(0), 400);
        assert!(window.is_low(200) && !window.is_low(201));
    }
}
