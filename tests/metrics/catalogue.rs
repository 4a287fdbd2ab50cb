//! The catalogue, its page, and what is really told: all three say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use duly::__outbox::relay_metrics::RELAY_CATALOGUE;
use duly::journal::MemoryJournal;
use duly::metrics::{CATALOGUE, Kind, MetricsChoices};
use duly::prelude::*;
use duly::testing::Probe;

use crate::metrics::seen::Seen;
use crate::world::{ORDERS, World, ms, secs};

const PAGE: &str = include_str!("../../src/docs/metrics.md");

/// The cells of each row of the table of metrics.
fn rows() -> Vec<Vec<&'static str>> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `duly_"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn the_page_has_each_metric_as_the_catalogue_has_it_and_no_other() {
    let kind = |kind| match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    };
    let known = CATALOGUE.iter().chain(RELAY_CATALOGUE).map(|metric| {
        let labels: Vec<_> = metric
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let name = format!("`{}`", metric.name);
        [
            name,
            kind(metric.kind).to_owned(),
            labels.join(", "),
            metric.help.to_owned(),
        ]
    });
    let known: Vec<_> = known.collect();
    let shown: Vec<_> = rows()
        .iter()
        .map(|row| [0, 1, 2, 3].map(|at| row[at].to_owned()))
        .collect();
    assert_eq!(shown, known);
}

#[test]
fn the_page_says_of_each_metric_what_to_do_when_it_grows() {
    for row in rows() {
        assert_eq!(row.len(), 5, "{row:?}");
        assert!(row[4].len() > 15 && row[4].ends_with('.'), "{row:?}");
    }
}

#[test]
fn names_say_what_is_counted_in_which_unit_and_bounds_only_grow() {
    for metric in CATALOGUE {
        let is_total = metric.name.ends_with("_total");
        assert_eq!(is_total, metric.kind == Kind::Counter, "{}", metric.name);
        let in_seconds = metric.unit == metrics::Unit::Seconds;
        assert_eq!(
            metric.name.ends_with("_seconds"),
            in_seconds,
            "{}",
            metric.name
        );
        if let Kind::Histogram(bounds) = metric.kind {
            assert!(bounds.is_sorted_by(|a, b| a < b), "{}", metric.name);
        }
    }
    let names: BTreeSet<_> = CATALOGUE.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), CATALOGUE.len());
}

/// A bus that has done something of everything, and what it told.
async fn told() -> BTreeMap<String, BTreeSet<Vec<String>>> {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let builder = world
        .builder()
        .shared_journal(Arc::new(MemoryJournal::default()));
    let builder = builder.metrics(MetricsChoices {
        depths_every: Some(secs(1)),
        ..MetricsChoices::default()
    });
    let builder = builder.register_as(ORDERS, Probe::<u64>::new());
    let bus = world.start(builder).await;
    let queue: Queue<u64> = bus.queue_named("orders").unwrap();
    queue.push_many(0..10, ms(50)).await.unwrap();
    bus.advance(secs(10)).await;
    bus.shutdown(secs(1)).await.unwrap();
    let mut told: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for name in seen.names() {
        let (name, labels) = name.split_once('{').unwrap_or((&name, ""));
        let labels = labels.trim_end_matches('}').split(',');
        let labels = labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        told.entry(name.to_owned())
            .or_default()
            .insert(labels.collect());
    }
    told
}

#[tokio::test(start_paused = true)]
async fn every_metric_is_told_from_the_start_with_its_labels_and_no_other_is() {
    let told = told().await;
    for metric in CATALOGUE {
        let mut labels: Vec<_> = metric
            .labels
            .iter()
            .map(|label| (*label).to_owned())
            .collect();
        labels.sort();
        assert_eq!(
            told.get(metric.name),
            Some(&BTreeSet::from([labels])),
            "{}",
            metric.name
        );
    }
    let known: BTreeSet<_> = CATALOGUE.iter().map(|metric| metric.name).collect();
    let unknown: Vec<_> = told
        .keys()
        .filter(|name| !known.contains(name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
