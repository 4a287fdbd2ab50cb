//! The histograms of the catalogue, counted where they are told.
//!
//! The exporter keeps each value with the time it came, and sorts them into buckets later. That
//! serves any kind of histogram and costs a few hundred nanoseconds for each attempt. Here the
//! buckets are known from the start, so a value costs one addition to a counter and one to a sum,
//! and threads do not write to the same ones.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ::metrics::{HistogramFn, Key};
use crossbeam_utils::CachePadded;

use crate::metrics::catalogue::{CATALOGUE, Kind, Metric};
use crate::metrics::shard::{SHARDS, shard};

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
    /// One for each bound, and one for what is beyond them all.
    counts: Box<[AtomicU64]>,
    /// The bits of a float.
    sum: AtomicU64,
}

impl Part {
    fn new(buckets: usize) -> CachePadded<Self> {
        CachePadded::new(Self {
            counts: (0..buckets).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0.0_f64.to_bits()),
        })
    }
}

impl Buckets {
    fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            parts: std::array::from_fn(|_| Part::new(bounds.len() + 1)),
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
        let part = &self.parts[shard()];
        part.counts[at].fetch_add(count as u64, Ordering::Relaxed);
        if value != 0.0 {
            let added = |sum| Some((f64::from_bits(sum) + value * count as f64).to_bits());
            let relaxed = Ordering::Relaxed;
            let _ = part.sum.fetch_update(relaxed, relaxed, added); // it has a value each time
        }
    }
}

/// One histogram of the catalogue, with its series by the values of its labels.
#[derive(Debug)]
struct Family {
    metric: &'static Metric,
    bounds: &'static [f64],
    series: Mutex<BTreeMap<Vec<String>, Arc<Buckets>>>,
}

impl Family {
    /// The values of the labels, in the catalogue's order; nothing where the labels are others.
    fn values(&self, key: &Key) -> Option<Vec<String>> {
        let value_of = |name: &&str| {
            let label = key.labels().find(|label| label.key() == *name)?;
            Some(label.value().to_owned())
        };
        let values: Option<Vec<_>> = self.metric.labels.iter().map(value_of).collect();
        values.filter(|values| values.len() == key.labels().len())
    }

    fn write(&self, page: &mut String) -> fmt::Result {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if series.is_empty() {
            return Ok(());
        }
        let Metric { name, help, .. } = self.metric;
        writeln!(page, "# HELP {name} {help}\n# TYPE {name} histogram")?;
        for (values, buckets) in &*series {
            let mut labels = String::new();
            for (name, value) in self.metric.labels.iter().zip(values) {
                write!(labels, "{name}=\"{}\",", escaped(value))?;
            }
            let (counts, sum) = buckets.read();
            let bounds = self.bounds.iter().map(f64::to_string);
            for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&counts) {
                writeln!(page, "{name}_bucket{{{labels}le=\"{bound}\"}} {count}")?;
            }
            let labels = match labels.trim_end_matches(',') {
                "" => String::new(),
                labels => format!("{{{labels}}}"),
            };
            let count = counts.last().copied().unwrap_or_default();
            writeln!(
                page,
                "{name}_sum{labels} {sum}\n{name}_count{labels} {count}"
            )?;
        }
        page.push('\n');
        Ok(())
    }
}

/// All histograms of the catalogue.
#[derive(Debug)]
pub(super) struct Histograms(Vec<Family>);

impl Histograms {
    pub(super) fn new() -> Self {
        let family = |metric: &'static Metric| match metric.kind {
            Kind::Histogram(bounds) => Some(Family {
                metric,
                bounds,
                series: Mutex::default(),
            }),
            Kind::Counter | Kind::Gauge => None,
        };
        Self(CATALOGUE.iter().filter_map(family).collect())
    }

    /// Whether the catalogue has a histogram of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|family| family.metric.name == name)
    }

    /// The series that a key names; nothing where it has other labels than the catalogue says.
    pub(super) fn series(&self, key: &Key) -> Option<Arc<Buckets>> {
        let mut families = self.0.iter();
        let family = families.find(|family| family.metric.name == key.name())?;
        let values = family.values(key)?;
        let mut series = family.series.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Buckets::new(family.bounds));
        Some(Arc::clone(series.entry(values).or_insert_with(new)))
    }

    /// Adds them to a page in the text format of Prometheus.
    pub(super) fn write(&self, page: &mut String) {
        for family in &self.0 {
            let _ = family.write(page); // a text takes in anything
        }
    }
}

/// The value of a label as it stands between quotes.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use ::metrics::Label;

    use super::*;
    use crate::metrics::catalogue::{HANDLER, LATENESS, SETTLE_BATCH};

    fn key(name: &'static str, labels: &[(&'static str, &'static str)]) -> Key {
        let labels = labels.iter().map(|(name, value)| Label::new(*name, *value));
        Key::from_parts(name, labels.collect::<Vec<_>>())
    }

    fn page(histograms: &Histograms) -> String {
        let mut page = String::new();
        histograms.write(&mut page);
        page
    }

    #[test]
    fn a_value_is_in_each_bucket_whose_bound_is_not_below_it() {
        let histograms = Histograms::new();
        let sizes = histograms
            .series(&key(SETTLE_BATCH, &[]))
            .expect("a series");
        for size in [1.0, 2.0, 2.5, 1_000.0, 1_001.0, f64::INFINITY] {
            sizes.record(size);
        }
        sizes.record_many(5.0, 10);
        let (counts, sum) = sizes.read();
        assert_eq!(counts, [1, 2, 13, 13, 13, 13, 13, 13, 13, 14, 16]);
        assert!(sum.is_infinite());
        assert!(page(&histograms).contains("_bucket{le=\"1000\"} 14\n"));
        assert!(page(&histograms).contains("_bucket{le=\"+Inf\"} 16\n"));
        assert!(page(&histograms).contains("_count 16\n"));
    }

    #[test]
    fn the_same_labels_in_any_order_are_one_series_and_others_are_none() {
        let histograms = Histograms::new();
        let series = |labels| histograms.series(&key(LATENESS, labels));
        let one = series(&[("queue", "a"), ("stage", "move")]).expect("a series");
        let same = series(&[("stage", "move"), ("queue", "a")]).expect("a series");
        assert!(Arc::ptr_eq(&one, &same));
        assert!(series(&[("queue", "a")]).is_none());
        assert!(series(&[("queue", "a"), ("stage", "move"), ("node", "n")]).is_none());
        assert!(series(&[("queue", "a"), ("step", "move")]).is_none());
        assert!(histograms.has(LATENESS) && !histograms.has("of_somebody_else"));
    }

    #[test]
    fn what_quotes_would_end_is_escaped() {
        let histograms = Histograms::new();
        let label = [("queue", "a\"b\\c\nd")];
        histograms
            .series(&key(HANDLER, &label))
            .expect("a series")
            .record(0.25);
        let count = "duly_handler_seconds_count{queue=\"a\\\"b\\\\c\\nd\"} 1\n";
        assert!(page(&histograms).contains(count), "{}", page(&histograms));
    }

    #[test]
    fn nothing_is_lost_when_many_tell_at_once() {
        let histograms = Histograms::new();
        let key = key(HANDLER, &[("queue", "a")]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let series = histograms.series(&key).expect("a series");
                scope.spawn(move || (0..10_000).for_each(|_| series.record(0.5)));
            }
        });
        let (counts, sum) = histograms.series(&key).expect("a series").read();
        assert_eq!((counts.last(), sum), (Some(&40_000), 20_000.0));
    }
}
