//! The file of results: a line for each figure.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::Result;
use crate::plan::Point;

/// Part, store and figure.
type Line = (String, String, String);

/// What was measured, by line and size.
#[derive(Default)]
pub(crate) struct Results(BTreeMap<Line, BTreeMap<u64, f64>>);

pub(crate) fn project() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn path() -> PathBuf {
    project().join("benches/growth/results.tsv")
}

impl Results {
    pub(crate) fn read() -> Result<Self> {
        let mut results = Self::default();
        if !path().exists() {
            return Ok(results);
        }
        for line in fs::read_to_string(path())?.lines().skip(1) {
            let fields: Vec<_> = line.split('\t').collect();
            let [part, kept, size, figure, value] = fields[..] else {
                return Err(format!("no result: {line:?}").into());
            };
            let line = (part.to_owned(), kept.to_owned(), figure.to_owned());
            let values = results.0.entry(line).or_default();
            values.insert(size.parse()?, value.parse()?);
        }
        Ok(results)
    }

    pub(crate) fn write(&self) -> Result {
        let mut text = String::from("part\tstore\tsize\tfigure\tvalue\n");
        for ((part, kept, figure), values) in &self.0 {
            for (size, value) in values {
                text += &format!("{part}\t{kept}\t{size}\t{figure}\t{value:.4}\n");
            }
        }
        Ok(fs::write(path(), text)?)
    }

    pub(crate) fn replace(&mut self, point: &Point, figures: Vec<(String, f64)>) {
        for (figure, value) in figures {
            let line = (
                point.part.name().to_owned(),
                point.kept.name().to_owned(),
                figure,
            );
            self.0.entry(line).or_default().insert(point.size, value);
        }
    }

    /// The values of a figure, in the order of their sizes.
    pub(crate) fn line(&self, part: &str, kept: &str, figure: &str) -> Vec<(u64, f64)> {
        let line = (part.to_owned(), kept.to_owned(), figure.to_owned());
        let values = self.0.get(&line).into_iter().flatten();
        values.map(|(size, value)| (*size, *value)).collect()
    }
}
