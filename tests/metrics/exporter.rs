//! Our exporter counts counters and histograms itself: it has to say of them what the package's own
//! would say.

use std::collections::BTreeSet;
use std::thread;

use duly::metrics::{CATALOGUE, Kind, Metric, Prometheus};
use metrics::{Key, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use proptest::prelude::*;

const METADATA: Metadata<'_> = Metadata::new("tests", Level::INFO, None);

/// The package's own exporter, told of the same buckets.
fn package() -> PrometheusRecorder {
    let mut builder = PrometheusBuilder::new();
    for metric in CATALOGUE {
        if let Kind::Histogram(bounds) = metric.kind {
            let name = Matcher::Full(metric.name.to_owned());
            builder = builder.set_buckets_for_metric(name, bounds).unwrap();
        }
    }
    builder.build_recorder()
}

/// A histogram of the catalogue, one of a few series of it, and a value that is often a bound.
fn told() -> impl Strategy<Value = (Key, f64)> {
    let histograms: Vec<_> = CATALOGUE
        .iter()
        .filter_map(|metric| match metric.kind {
            Kind::Histogram(bounds) => Some((metric, bounds)),
            Kind::Counter | Kind::Gauge => None,
        })
        .collect();
    (0..histograms.len(), 0..3_u8).prop_flat_map(move |(at, series)| {
        let (metric, bounds) = histograms[at];
        let near = prop::sample::select(bounds.to_vec());
        let value = prop_oneof![near, (0..400_000_u32).prop_map(|it| f64::from(it) / 4.0)];
        (Just(key(metric, series)), value)
    })
}

/// A counter of the catalogue, one of a few series of it, and by how much it grows.
fn counted() -> impl Strategy<Value = (Key, u64)> {
    let is_counter = |metric: &&Metric| metric.kind == Kind::Counter;
    let counters: Vec<_> = CATALOGUE.iter().filter(is_counter).collect();
    let key =
        (prop::sample::select(counters), 0..3_u8).prop_map(|(metric, series)| key(metric, series));
    (key, 0..1_000_u64)
}

fn key(metric: &'static Metric, series: u8) -> Key {
    let label = |name: &&'static str| Label::new(*name, format!("{name}-{series}"));
    let labels: Vec<_> = metric.labels.iter().map(label).collect();
    Key::from_parts(metric.name, labels)
}

/// Lines with buckets and counts, in any order; and the sums, which are added in another order.
fn lines(page: &str) -> (BTreeSet<&str>, Vec<(&str, f64)>) {
    let lines = page.lines().filter(|line| !line.is_empty());
    let (sums, counts): (Vec<_>, Vec<_>) = lines.partition(|line| line.contains("_sum"));
    let mut sums: Vec<_> = sums
        .into_iter()
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(series, sum)| (series, sum.parse().unwrap()))
        .collect();
    sums.sort_by_key(|(series, _): &(&str, f64)| *series);
    (counts.into_iter().collect(), sums)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn histograms_are_on_the_page_as_the_package_would_have_them(
        told in prop::collection::vec(told(), 1..200),
    ) {
        let (ours, theirs) = (Prometheus::new().unwrap(), package());
        for metric in CATALOGUE {
            let (name, help) = (metric.name, metric.help);
            ours.describe_histogram(name.into(), Some(Unit::Seconds), help.into());
            theirs.describe_histogram(name.into(), Some(Unit::Seconds), help.into());
        }
        for (key, value) in &told {
            ours.register_histogram(key, &METADATA).record(*value);
            theirs.register_histogram(key, &METADATA).record(*value);
        }
        let (ours, theirs) = (ours.render(), theirs.handle().render());
        let ((ours, our_sums), (theirs, their_sums)) = (lines(&ours), lines(&theirs));
        prop_assert_eq!(ours, theirs);
        prop_assert_eq!(our_sums.len(), their_sums.len());
        for ((series, ours), (same, theirs)) in our_sums.into_iter().zip(their_sums) {
            prop_assert_eq!(series, same);
            prop_assert!((ours - theirs).abs() <= 1e-9 * theirs.abs(), "{ours} {theirs}");
        }
    }

    #[test]
    fn counters_are_on_the_page_as_the_package_would_have_them(
        counted in prop::collection::vec(counted(), 1..200),
    ) {
        let (ours, theirs) = (Prometheus::new().unwrap(), package());
        for metric in CATALOGUE {
            let (name, help) = (metric.name, metric.help);
            ours.describe_counter(name.into(), Some(Unit::Count), help.into());
            theirs.describe_counter(name.into(), Some(Unit::Count), help.into());
        }
        // From two threads, as counters are.
        let tell = |counted: &[(Key, u64)]| for (key, more) in counted {
            ours.register_counter(key, &METADATA).increment(*more);
            theirs.register_counter(key, &METADATA).increment(*more);
        };
        let (here, there) = counted.split_at(counted.len() / 2);
        thread::scope(|scope| {
            scope.spawn(|| tell(there));
            tell(here);
        });
        let (ours, theirs) = (ours.render(), theirs.handle().render());
        prop_assert_eq!(lines(&ours), lines(&theirs));
    }
}

#[test]
fn what_the_program_tells_of_itself_is_on_the_page_as_well() {
    let prometheus = Prometheus::new().unwrap();
    let own = Key::from_static_name("shop_basket_size");
    prometheus.register_histogram(&own, &METADATA).record(3.0);
    let orders = Key::from_static_name("shop_orders_total");
    prometheus.register_counter(&orders, &METADATA).increment(2);
    let page = prometheus.render();
    assert!(page.contains("shop_basket_size_count 1\n"), "{page}");
    assert!(page.contains("shop_orders_total 2\n"), "{page}");
}

#[test]
fn other_labels_than_the_catalogue_says_do_not_spoil_the_page() {
    let prometheus = Prometheus::new().unwrap();
    let key = Key::from_parts("duly_handler_seconds", vec![Label::new("shop", "7")]);
    prometheus.register_histogram(&key, &METADATA).record(3.0);
    assert!(!prometheus.render().contains("duly_handler_seconds"));
    let key = Key::from_parts("duly_pushed_total", vec![Label::new("shop", "7")]);
    prometheus.register_counter(&key, &METADATA).increment(3);
    assert!(!prometheus.render().contains("duly_pushed_total"));
}
