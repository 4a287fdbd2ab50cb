//! The metrics of one kind in the catalogue, each with its series by the values of its labels.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use ::metrics::Key;

use crate::metrics::catalogue::{CATALOGUE, Metric};

/// One series of a metric, which counts where it is told.
pub(super) trait Series: Sized {
    /// What Prometheus calls the kind.
    const KIND: &'static str;

    /// A new one of a metric; nothing where the metric is of another kind.
    fn of(metric: &Metric) -> Option<Self>;

    /// Adds its lines to a page; `labels` as they stand between the braces.
    fn write(&self, page: &mut String, name: &str, labels: &str) -> fmt::Result;
}

/// All metrics of the catalogue that are of a kind.
#[derive(Debug)]
pub(super) struct Families<S>(Vec<Family<S>>);

/// One metric, with its series.
#[derive(Debug)]
struct Family<S> {
    metric: &'static Metric,
    series: Mutex<BTreeMap<Vec<String>, Arc<S>>>,
}

impl<S: Series> Families<S> {
    pub(super) fn new() -> Self {
        let is_of_kind = |metric: &&Metric| S::of(metric).is_some();
        let family = |metric| Family {
            metric,
            series: Mutex::default(),
        };
        Self(CATALOGUE.iter().filter(is_of_kind).map(family).collect())
    }

    /// Whether a name of the catalogue is one of these.
    pub(super) fn have(&self, name: &str) -> bool {
        self.0.iter().any(|family| family.metric.name == name)
    }

    /// The series that a key names; nothing where it has other labels than the catalogue says.
    pub(super) fn series(&self, key: &Key) -> Option<Arc<S>> {
        let mut families = self.0.iter();
        let family = families.find(|family| family.metric.name == key.name())?;
        let values = family.values(key)?;
        let new = Arc::new(S::of(family.metric)?);
        let mut series = family.series.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(series.entry(values).or_insert(new)))
    }

    /// Adds them to a page in the text format of Prometheus.
    pub(super) fn write(&self, page: &mut String) {
        for family in &self.0 {
            let _ = family.write(page); // a text takes in anything
        }
    }
}

impl<S: Series> Family<S> {
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
        let (Metric { name, help, .. }, kind) = (self.metric, S::KIND);
        writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        for (values, one) in &*series {
            let named = self.metric.labels.iter().zip(values);
            let labels: Vec<_> = named
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            one.write(page, name, &labels.join(","))?;
        }
        page.push('\n');
        Ok(())
    }
}

/// Labels in their braces; nothing where there are none.
pub(super) fn braced(labels: &str) -> String {
    match labels {
        "" => String::new(),
        labels => format!("{{{labels}}}"),
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
    use crate::metrics::catalogue::{HANDLER, LATENESS, SETTLE_BATCH, SETTLED};

    /// A series that has nothing to say.
    #[derive(Debug)]
    struct Silent;

    impl Series for Silent {
        const KIND: &'static str = "untyped";

        fn of(metric: &Metric) -> Option<Self> {
            (metric.name != SETTLED).then_some(Self)
        }

        fn write(&self, page: &mut String, name: &str, labels: &str) -> fmt::Result {
            writeln!(page, "{name}{}", braced(labels))
        }
    }

    fn key(name: &'static str, labels: &[(&'static str, &'static str)]) -> Key {
        let labels = labels.iter().map(|(name, value)| Label::new(*name, *value));
        Key::from_parts(name, labels.collect::<Vec<_>>())
    }

    #[test]
    fn the_same_labels_in_any_order_are_one_series_and_others_are_none() {
        let families = Families::<Silent>::new();
        let series = |labels| families.series(&key(LATENESS, labels));
        let one = series(&[("queue", "a"), ("stage", "move")]).expect("a series");
        let same = series(&[("stage", "move"), ("queue", "a")]).expect("a series");
        assert!(Arc::ptr_eq(&one, &same));
        assert!(series(&[("queue", "a")]).is_none());
        assert!(series(&[("queue", "a"), ("stage", "move"), ("node", "n")]).is_none());
        assert!(series(&[("queue", "a"), ("step", "move")]).is_none());
        assert!(families.have(LATENESS) && !families.have("of_somebody_else"));
        assert!(!families.have(SETTLED), "of another kind");
    }

    #[test]
    fn what_was_never_told_of_is_not_on_the_page_and_what_quotes_would_end_is_escaped() {
        let families = Families::<Silent>::new();
        families.series(&key(SETTLE_BATCH, &[])).expect("a series");
        let label = [("queue", "a\"b\\c\nd")];
        families.series(&key(HANDLER, &label)).expect("a series");
        let mut page = String::new();
        families.write(&mut page);
        let words: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            words,
            [
                "duly_handler_seconds{queue=\"a\\\"b\\\\c\\nd\"}",
                "",
                "duly_settle_batch_size",
                ""
            ]
        );
    }
}
