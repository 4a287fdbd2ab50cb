//! Expressions of PromQL: which metrics and which labels they name.

use std::collections::BTreeSet;

use duly::__outbox::relay_metrics::RELAY_CATALOGUE;
use duly::metrics::{CATALOGUE, Kind, Metric};

/// Those of the library, and of relays.
pub(crate) fn all() -> impl Iterator<Item = &'static Metric> {
    CATALOGUE.iter().chain(RELAY_CATALOGUE)
}

/// The metric of the catalogue that a name in an expression means.
pub(crate) fn metric(name: &str) -> Option<&'static Metric> {
    let named = |name: &str| all().find(|metric| metric.name == name);
    let parts = ["_bucket", "_sum", "_count"];
    let whole = parts.iter().find_map(|part| name.strip_suffix(part));
    let histogram = whole.and_then(named);
    let histogram = histogram.filter(|metric| matches!(metric.kind, Kind::Histogram(_)));
    let is_itself = |metric: &&Metric| !matches!(metric.kind, Kind::Histogram(_));
    histogram.or_else(|| named(name).filter(is_itself))
}

/// What is wrong with the names in an expression: metrics that are not in the catalogue, labels
/// that none of its metrics has.
pub(crate) fn unknown_names(expression: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    // What Prometheus adds to each series.
    let mut labels = BTreeSet::from(["job", "instance", "le"]);
    let words = expression.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    let names: BTreeSet<_> = words.filter(|word| word.starts_with("duly_")).collect();
    if names.is_empty() {
        wrong.push(format!("no metric of duly: {expression}"));
    }
    for name in names {
        match metric(name) {
            Some(metric) => labels.extend(metric.labels),
            None => wrong.push(format!("metric {name}: {expression}")),
        }
    }
    for label in labels_of(expression) {
        if !labels.contains(label.as_str()) {
            wrong.push(format!("label {label}: {expression}"));
        }
    }
    wrong
}

/// The labels in `{..}`, and in the brackets after `by` and `on`.
fn labels_of(expression: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let inside = |open: char, close: char, text: &str| -> Option<String> {
        let rest = text.trim_start().strip_prefix(open)?;
        Some(rest[..rest.find(close)?].to_owned())
    };
    for (at, _) in expression.match_indices('{') {
        let Some(matchers) = inside('{', '}', &expression[at..]) else {
            continue;
        };
        let names = matchers
            .split(',')
            .filter_map(|it| it.split(['=', '!']).next());
        labels.extend(names.map(|name| name.trim().to_owned()));
    }
    for word in ["by", "on", "without", "ignoring"] {
        for (at, _) in expression.match_indices(&format!(" {word} (")) {
            let listed = inside('(', ')', &expression[at + word.len() + 1..]);
            let listed = listed.expect("a bracket is closed");
            labels.extend(listed.split(',').map(|name| name.trim().to_owned()));
        }
    }
    labels.retain(|label| !label.is_empty());
    labels
}

#[test]
fn a_name_that_is_nobodys_is_found() {
    let good = r#"sum by (job, le) (rate(duly_lateness_seconds_bucket{stage="total"}[5m])) > 1"#;
    assert_eq!(unknown_names(good), [""; 0]);
    for (bad, what) in [
        (r#"duly_ready{job="a"}"#, "metric duly_ready"),
        ("duly_lateness_seconds", "metric duly_lateness_seconds"),
        ("duly_workers_bucket", "metric duly_workers_bucket"),
        (r#"duly_workers{stage="total"}"#, "label stage"),
        ("sum by (job, host) (duly_workers)", "label host"),
        ("up == 0", "no metric of duly"),
    ] {
        let wrong = unknown_names(bad);
        assert!(
            wrong.iter().any(|wrong| wrong.starts_with(what)),
            "{bad}: {wrong:?}"
        );
    }
}
