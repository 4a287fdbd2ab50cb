//! What a page of metrics holds, and whether it is what the catalogue says.

use std::collections::BTreeMap;

use duly::metrics::{CATALOGUE, Kind, Metric};

/// A page, taken apart: the kind of each metric, and its series.
#[derive(Debug, Default)]
pub(crate) struct Page {
    kinds: BTreeMap<String, String>,
    help: BTreeMap<String, String>,
    series: Vec<(String, BTreeMap<String, String>)>,
}

impl Page {
    pub(crate) fn read(text: &str) -> Self {
        let mut page = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(typed) = line.strip_prefix("# TYPE ") {
                let (name, kind) = typed.split_once(' ').expect("a name and a kind");
                page.kinds.insert(name.to_owned(), kind.to_owned());
            } else if let Some(helped) = line.strip_prefix("# HELP ") {
                let (name, help) = helped.split_once(' ').expect("a name and help");
                page.help.insert(name.to_owned(), help.to_owned());
            } else {
                let (series, _) = line.rsplit_once(' ').expect("a series and a value");
                let (name, labels) = series.split_once('{').unwrap_or((series, ""));
                let labels = labels.trim_end_matches('}').split("\",");
                let labels = labels.filter_map(|label| label.split_once("=\""));
                let labels = labels
                    .map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned()));
                page.series.push((name.to_owned(), labels.collect()));
            }
        }
        page
    }

    /// What is not as the catalogue says, row by row.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for metric in CATALOGUE {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram(_) => "histogram",
            };
            let name = metric.name;
            if self.kinds.get(name).map(String::as_str) != Some(kind) {
                wrong.push(format!(
                    "{name} is {:?}, not a {kind}",
                    self.kinds.get(name)
                ));
            }
            if self.help.get(name).map(String::as_str) != Some(metric.help) {
                wrong.push(format!("{name} has the help {:?}", self.help.get(name)));
            }
            wrong.extend(self.labels_of(metric));
        }
        let known = |name: &str| CATALOGUE.iter().any(|metric| metric.name == name);
        let unknown = self.kinds.keys().filter(|name| !known(name));
        wrong.extend(unknown.map(|name| format!("{name} is not in the catalogue")));
        wrong
    }

    fn labels_of(&self, metric: &Metric) -> Vec<String> {
        let mut wrong = Vec::new();
        let (series, mut labels) = match metric.kind {
            Kind::Histogram(_) => (format!("{}_bucket", metric.name), vec!["le"]),
            _ => (metric.name.to_owned(), Vec::new()),
        };
        labels.extend(metric.labels);
        labels.sort_unstable();
        let found: Vec<_> = self
            .series
            .iter()
            .filter(|(name, _)| *name == series)
            .collect();
        if found.is_empty() {
            wrong.push(format!("{series} has no series"));
        }
        for (_, found) in &found {
            if !found.keys().eq(labels.iter()) {
                wrong.push(format!("{series} has the labels {found:?}"));
            }
        }
        if let Kind::Histogram(bounds) = metric.kind {
            for bound in bounds {
                let has = |found: &&(String, BTreeMap<String, String>)| {
                    found.1["le"].parse::<f64>().is_ok_and(|le| le == *bound)
                };
                if !found.is_empty() && !found.iter().any(has) {
                    wrong.push(format!("{series} has no bucket up to {bound}"));
                }
            }
        }
        wrong
    }

    /// The values of a label of a metric.
    pub(crate) fn values(&self, metric: &str, label: &str) -> Vec<String> {
        let series = self.series.iter().filter(|(name, _)| name == metric);
        let values = series.filter_map(|(_, labels)| labels.get(label).cloned());
        let mut values: Vec<_> = values.collect();
        values.sort();
        values.dedup();
        values
    }
}
