//! The histograms of the catalogue, counted where they are told.
//!
//! The exporter keeps each value with the time it came, and sorts them into buckets later. That
//! serves any kind of histogram and costs a few hundred nanoseconds for each attempt. Here the
//! buckets are known from the start, so a value costs one addition to a counter and one to a sum,
//! and threads do not write to the same ones.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use ::metrics::HistogramFn;
use crossbeam_utils::CachePadded;

use super::families::{Series, braced};
use crate::metrics::catalogue::{CATALOGUE, Kind, Metric};
use crate::metrics::shard::{SHARDS, Shard};

/// More than the bounds of any histogram of the catalogue.
const MOST: usize = 20;

const _: () = {
    let mut at = 0;
    while at < CATALOGUE.len() {
        if let Kind::Histogram(bounds) = CATALOGUE[at].kind {
            assert!(bounds.len() < MOST, "what is beyond them all has no place");
        }
        at += 1;
    }
};

/// One series: how many values fell into each bucket, and what they add up to.
#[derive(Debug)]
pub(super) struct Buckets {
    bounds: &'static [f64],
    /// Threads that write to the same counter wait for each other, so they have several.
    parts: [CachePadded<Part>; SHARDS],
}

/// What some of the threads have told.
#[derive(Debug)]
struct Part {
    /// The bits of a float.
    sum: AtomicU64,
    /// One for each bound, and one for what is beyond them all.
    counts: [AtomicU64; MOST],
}

impl Part {
    fn new() -> Self {
        Self {
            sum: AtomicU64::new(0.0_f64.to_bits()),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Buckets {
    fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            parts: std::array::from_fn(|_| CachePadded::new(Part::new())),
        }
    }

    /// How many values are at most each bound, and how many there are; and their sum.
    ///
    /// Values that come meanwhile may be in the one and not yet in the other.
    fn read(&self) -> (Vec<u64>, f64) {
        let mut counts = vec![0; self.bounds.len() + 1];
        let mut sum = 0.0;
        for part in &self.parts {
            for (count, more) in counts.iter_mut().zip(&part.counts) {
                *count += more.load(Ordering::Relaxed);
            }
            sum += f64::from_bits(part.sum.load(Ordering::Relaxed));
        }
        let mut below = 0;
        for count in &mut counts {
            below += *count;
            *count = below;
        }
        (counts, sum)
    }
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        // A bucket holds what is at most its bound; what is no number is beyond them all.
        let at = self.bounds.iter().position(|bound| value <= *bound);
        let at = at.unwrap_or(self.bounds.len());
        let mine = Shard::mine();
        let part = &self.parts[mine.at()];
        mine.add(&part.counts[at], count as u64);
        if value != 0.0 {
            let added = |sum| (f64::from_bits(sum) + value * count as f64).to_bits();
            mine.change(&part.sum, added);
        }
    }
}

impl Series for Buckets {
    const KIND: &'static str = "histogram";

    fn of(metric: &Metric) -> Option<Self> {
        match metric.kind {
            Kind::Histogram(bounds) => Some(Self::new(bounds)),
            Kind::Counter | Kind::Gauge => None,
        }
    }

    fn write(&self, page: &mut String, name: &str, labels: &str) -> fmt::Result {
        let (counts, sum) = self.read();
        let comma = if labels.is_empty() { "" } else { "," };
        let bounds = self.bounds.iter().map(f64::to_string);
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&counts) {
            writeln!(
                page,
                "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}"
            )?;
        }
        let (labels, count) = (braced(labels), counts.last().copied().unwrap_or_default());
        writeln!(page, "{name}_sum{labels} {sum}")?;
        writeln!(page, "{name}_count{labels} {count}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::catalogue::{BATCH_BOUNDS, DURATION_BOUNDS};

    #[test]
    fn a_value_is_in_each_bucket_whose_bound_is_not_below_it() {
        let sizes = Buckets::new(BATCH_BOUNDS);
        for size in [1.0, 2.0, 2.5, 1_000.0, 1_001.0, f64::INFINITY] {
            sizes.record(size);
        }
        sizes.record_many(5.0, 10);
        let (counts, sum) = sizes.read();
        assert_eq!(counts, [1, 2, 13, 13, 13, 13, 13, 13, 13, 14, 16]);
        assert!(sum.is_infinite());
        let mut page = String::new();
        sizes.write(&mut page, "sizes", "").expect("a text");
        assert!(page.contains("sizes_bucket{le=\"1000\"} 14\n"), "{page}");
        assert!(page.contains("sizes_bucket{le=\"+Inf\"} 16\n"), "{page}");
        assert!(page.contains("sizes_count 16\n"), "{page}");
    }

    #[test]
    fn nothing_is_lost_when_many_tell_at_once() {
        let took = Buckets::new(DURATION_BOUNDS);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| took.record(0.5)));
            }
        });
        let (counts, sum) = took.read();
        assert_eq!((counts.last(), sum), (Some(&40_000), 20_000.0));
    }
}
