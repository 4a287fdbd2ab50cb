//! How long the journal keeps records, and what the metrics say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use duly::journal::RecordChoices;
use duly::metrics::CATALOGUE;
use duly::testing::Probe;
use duly::time::When;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString,
    Unit,
};

use crate::records::bad::Mode;
use crate::records::world::{ORDERS, World, prompt, secs};

#[tokio::test(start_paused = true)]
async fn the_journal_keeps_so_many_and_so_long() {
    let world = World::new();
    let choices = RecordChoices {
        keep: Some(secs(3_600)),
        keep_max: Some(2_500),
        ..RecordChoices::default()
    };
    let builder = world.builder(prompt()).records(choices);
    let (bus, queue) = world
        .start(builder.register_as(ORDERS, Probe::<u64>::new()))
        .await;
    queue.push_many(0..6_000, secs(0)).await.unwrap();
    bus.advance(secs(200)).await;
    assert_eq!(world.numbers().await, Vec::from_iter(3_501..=6_000));
    bus.advance(secs(3_700)).await;
    // An age counts back from the newest record.
    assert_eq!(world.numbers().await, Vec::from_iter(3_501..=6_000));
    queue.push(6_000, When::Now).await.unwrap();
    bus.advance(secs(200)).await;
    assert_eq!(world.numbers().await, [6_001]);
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_cannot_be_pruned_still_takes_in_records() {
    let world = World::new();
    let (bus, queue) = world.serve(&Probe::<u64>::new()).await;
    world.journal.now(Mode::Fails);
    bus.advance(secs(600)).await;
    assert!((8..=12).contains(&world.journal.prunes()));
    world.journal.now(Mode::Works);
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(world.numbers().await, [1]);
}

/// What was said last of each gauge, and each counter, as bits of a float or whole.
#[derive(Clone, Default)]
struct Seen {
    values: Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>,
    described: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Seen {
    fn value(&self, key: &Key) -> Arc<Value> {
        let mut values = self.values.lock().expect("nobody panics in there");
        Arc::new(Value(Arc::clone(
            values.entry(key.name().to_owned()).or_default(),
        )))
    }

    fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.counter(name))
    }

    fn counter(&self, name: &str) -> u64 {
        let values = self.values.lock().expect("nobody panics in there");
        values[name].load(Ordering::Relaxed)
    }

    fn describe(&self, name: &KeyName, help: &SharedString) {
        let mut described = self.described.lock().expect("nobody panics in there");
        described.insert(name.as_str().to_owned(), help.to_string());
    }
}

struct Value(Arc<AtomicU64>);

impl CounterFn for Value {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl GaugeFn for Value {
    fn increment(&self, _value: f64) {}

    fn decrement(&self, _value: f64) {}

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        self.describe(&name, &help);
    }

    fn describe_gauge(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        self.describe(&name, &help);
    }

    fn describe_histogram(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        self.describe(&name, &help);
    }

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.value(key))
    }

    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.value(key))
    }

    fn register_histogram(&self, _key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_tell_what_waits_what_was_recorded_and_what_was_dropped() {
    let seen = Seen::default();
    let _guard = metrics::set_default_local_recorder(&seen);
    let world = World::new();
    let choices = RecordChoices {
        outbox_max: Some(50),
        ..RecordChoices::default()
    };
    let builder = world.builder(prompt()).records(choices);
    let (bus, queue) = world
        .start(builder.register_as(ORDERS, Probe::<u64>::new()))
        .await;
    queue.push_many(0..40, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(seen.counter("duly_journal_recorded_total"), 40);
    assert_eq!(seen.gauge("duly_outbox_waiting"), 0.0);

    world.journal.now(Mode::Fails);
    queue.push_many(0..60, secs(0)).await.unwrap();
    bus.advance(secs(20)).await;
    assert_eq!(seen.gauge("duly_journal_away"), 1.0);
    assert_eq!(seen.gauge("duly_outbox_waiting"), 50.0);
    assert_eq!(seen.counter("duly_journal_dropped_total"), 10);
    assert!(seen.gauge("duly_journal_lag_seconds") > 10.0);

    world.journal.now(Mode::Works);
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(6)).await;
    assert_eq!(seen.gauge("duly_journal_away"), 0.0);
    assert_eq!(seen.gauge("duly_outbox_waiting"), 0.0);
    assert_eq!(seen.gauge("duly_journal_lag_seconds"), 0.0, "none waits");

    let known: BTreeSet<&str> = CATALOGUE.iter().map(|metric| metric.name).collect();
    let used = seen.values.lock().unwrap();
    let used: BTreeSet<&str> = used.keys().map(String::as_str).collect();
    let ours = |name: &&str| name.starts_with("duly_journal_") || name.starts_with("duly_outbox_");
    assert!(used.is_subset(&known), "{used:?}");
    let unused: Vec<&&str> = known.difference(&used).filter(|name| ours(name)).collect();
    assert!(unused.is_empty(), "each is in use: {unused:?}");
    let described = seen.described.lock().unwrap();
    for metric in CATALOGUE {
        assert_eq!(described[metric.name], metric.help);
    }
}
