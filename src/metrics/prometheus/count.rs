//! The counters of the catalogue, apart from each other for each thread.
//!
//! A push by itself counts one event, so with one counter for all of them the threads of a bus
//! would pass it back and forth a million times a second.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use ::metrics::CounterFn;
use crossbeam_utils::CachePadded;

use super::families::{Series, braced};
use crate::metrics::catalogue::{Kind, Metric};
use crate::metrics::shard::{SHARDS, Shard};

/// One series: a sum of what its parts have counted.
#[derive(Debug, Default)]
pub(super) struct Count([CachePadded<AtomicU64>; SHARDS]);

impl Count {
    fn read(&self) -> u64 {
        let parts = self.0.iter().map(|part| part.load(Ordering::Relaxed));
        parts.fold(0, u64::wrapping_add)
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        let mine = Shard::mine();
        mine.add(&self.0[mine.at()], value);
    }

    /// Brings it up to a value, unless it is there; it may be brought beyond that by several
    /// threads that do so at once, which the catalogue has no use for.
    fn absolute(&self, value: u64) {
        self.increment(value.saturating_sub(self.read()));
    }
}

impl Series for Count {
    const KIND: &'static str = "counter";

    fn of(metric: &Metric) -> Option<Self> {
        (metric.kind == Kind::Counter).then(Self::default)
    }

    fn write(&self, page: &mut String, name: &str, labels: &str) -> fmt::Result {
        writeln!(page, "{name}{} {}", braced(labels), self.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_many_count_at_once() {
        let count = Count::default();
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| (0..10_000).for_each(|_| count.increment(2)));
            }
        });
        assert_eq!(count.read(), 240_000);
    }

    #[test]
    fn it_is_brought_up_to_a_value_and_never_down() {
        let count = Count::default();
        count.absolute(7);
        count.absolute(3);
        assert_eq!(count.read(), 7);
        let mut page = String::new();
        count
            .write(&mut page, "duly_pushed_total", "queue=\"a\"")
            .expect("a text");
        assert_eq!(page, "duly_pushed_total{queue=\"a\"} 7\n");
    }
}
