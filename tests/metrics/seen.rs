//! A recorder that keeps everything it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, LocalRecorderGuard,
    Metadata, Recorder, SharedString, Unit,
};

/// A metric and its labels, as in `name{queue=orders,stage=move}`.
fn name_of(key: &Key) -> String {
    let mut labels: Vec<_> = key
        .labels()
        .map(|label| format!("{}={}", label.key(), label.value()))
        .collect();
    labels.sort();
    if labels.is_empty() {
        key.name().to_owned()
    } else {
        format!("{}{{{}}}", key.name(), labels.join(","))
    }
}

/// What was told of one metric.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The sum of a counter, or the last value of a gauge.
    pub(crate) value: f64,
    /// Each value of a histogram.
    pub(crate) values: Vec<f64>,
}

#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<BTreeMap<String, Handle>>>);

#[derive(Clone, Default)]
struct Handle(Arc<Mutex<Told>>);

impl Seen {
    /// Returns what this thread tells as long as the guard lives.
    pub(crate) fn recording() -> (Self, LocalRecorderGuard<'static>) {
        let seen = Self::default();
        let recorder = Box::leak(Box::new(seen.clone()));
        (seen, metrics::set_default_local_recorder(recorder))
    }

    fn handle(&self, key: &Key) -> Arc<Handle> {
        let mut all = self.0.lock().expect("nobody panics in there");
        Arc::new(all.entry(name_of(key)).or_default().clone())
    }

    fn told<T>(&self, name: &str, what: impl FnOnce(&Told) -> T) -> T {
        let all = self.0.lock().expect("nobody panics in there");
        let names = || Vec::from_iter(all.keys().cloned());
        let Some(handle) = all.get(name) else {
            panic!("nothing was told of {name}, but of {:?}", names());
        };
        what(&handle.0.lock().expect("nobody panics in there"))
    }

    /// The sum of a counter, or the last value of a gauge.
    pub(crate) fn value(&self, name: &str) -> f64 {
        self.told(name, |told| told.value)
    }

    /// Each value of a histogram.
    pub(crate) fn values(&self, name: &str) -> Vec<f64> {
        self.told(name, |told| told.values.clone())
    }

    /// The metrics with their labels.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let all = self.0.lock().expect("nobody panics in there");
        all.keys().cloned().collect()
    }

    /// The sum of a counter over all its labels.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        let all = self.0.lock().expect("nobody panics in there");
        let of = all.iter().filter(|(known, _)| {
            let rest = known.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
        });
        of.map(|(_, handle)| handle.0.lock().expect("nobody panics in there").value)
            .sum()
    }
}

impl Handle {
    fn tell(&self, what: impl FnOnce(&mut Told)) {
        what(&mut self.0.lock().expect("nobody panics in there"));
    }
}

impl CounterFn for Handle {
    fn increment(&self, value: u64) {
        self.tell(|told| told.value += value as f64);
    }

    fn absolute(&self, value: u64) {
        self.tell(|told| told.value = value as f64);
    }
}

impl GaugeFn for Handle {
    fn increment(&self, value: f64) {
        self.tell(|told| told.value += value);
    }

    fn decrement(&self, value: f64) {
        self.tell(|told| told.value -= value);
    }

    fn set(&self, value: f64) {
        self.tell(|told| told.value = value);
    }
}

impl HistogramFn for Handle {
    fn record(&self, value: f64) {
        self.tell(|told| told.values.push(value));
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _name: KeyName, _unit: Option<Unit>, _help: SharedString) {}

    fn describe_gauge(&self, _name: KeyName, _unit: Option<Unit>, _help: SharedString) {}

    fn describe_histogram(&self, _name: KeyName, _unit: Option<Unit>, _help: SharedString) {}

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.handle(key))
    }

    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.handle(key))
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.handle(key))
    }
}
