//! Counters of calls in windows, in memory.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{Call, Window};

/// How many counters are kept at least before those of past windows are removed.
const COUNTERS_MIN: usize = 10_000;

/// Counters, by name.
#[derive(Debug)]
pub(super) struct Counters {
    by_name: HashMap<String, Counter>,
    /// How many there are when those of past windows are removed the next time: twice as many as were
    /// left the last time, so that no call pays for more than a few.
    sweep_at: usize,
    /// How many windows have begun.
    windows: u64,
}

/// The calls of a window.
#[derive(Debug)]
struct Counter {
    taken: u64,
    ends: Instant,
    window: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            by_name: HashMap::new(),
            sweep_at: COUNTERS_MIN,
            windows: 0,
        }
    }
}

impl Counters {
    /// Takes one of `max` calls in a window that begins with its first call.
    pub(super) fn take(&mut self, name: &str, max: u64, window: Duration) -> Call {
        let now = Instant::now();
        if self.by_name.len() >= self.sweep_at {
            self.by_name.retain(|_, counter| counter.ends > now);
            self.sweep_at = COUNTERS_MIN.max(self.by_name.len() * 2);
        }
        let windows = &mut self.windows;
        let mut fresh = || {
            *windows += 1;
            let (ends, window) = (now + window, *windows);
            Counter {
                taken: 0,
                ends,
                window,
            }
        };
        let counter = self
            .by_name
            .entry(name.to_owned())
            .or_insert_with(&mut fresh);
        if counter.ends <= now {
            *counter = fresh();
        }
        if counter.taken >= max {
            return Call::Throttled(counter.ends - now);
        }
        counter.taken += 1;
        Call::Counted(Window(counter.window))
    }

    /// Gives a call back, if its window is not over.
    pub(super) fn give_back(&mut self, name: &str, Window(window): Window) {
        let counter = self.by_name.get_mut(name);
        if let Some(counter) = counter.filter(|counter| counter.window == window) {
            counter.taken = counter.taken.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[tokio::test(start_paused = true)]
    async fn counters_are_looked_through_when_there_are_twice_as_many() {
        let mut counters = Counters::default();
        let mut sweeps = 0;
        for number in 0..8 * COUNTERS_MIN {
            let before = counters.sweep_at;
            let taken = counters.take(&number.to_string(), 1, HOUR);
            assert!(matches!(taken, Call::Counted(_)), "{taken:?}");
            sweeps += usize::from(counters.sweep_at != before);
        }
        assert_eq!(sweeps, 3);
        let again = counters.take("0", 1, HOUR);
        assert_eq!(again, Call::Throttled(HOUR), "none is forgotten");
        tokio::time::advance(HOUR).await;
        for number in 0..=8 * COUNTERS_MIN {
            counters.take(&format!("later {number}"), 1, HOUR);
        }
        assert!(
            counters.by_name.len() <= 8 * COUNTERS_MIN + 1,
            "the old are gone"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_given_back_to_its_own_window() {
        let mut counters = Counters::default();
        let take = |counters: &mut Counters| match counters.take("a", 1, HOUR) {
            Call::Counted(window) => Some(window),
            Call::Throttled(_) => None,
        };
        let first = take(&mut counters).unwrap();
        counters.give_back("a", first);
        let again = take(&mut counters);
        assert_eq!(again, Some(first), "the window is not over");
        assert_eq!(take(&mut counters), None);
        tokio::time::advance(HOUR).await;
        let next = take(&mut counters);
        assert_ne!(next, Some(first));
        counters.give_back("a", first);
        assert_eq!(take(&mut counters), None, "its window is over");
    }
}
