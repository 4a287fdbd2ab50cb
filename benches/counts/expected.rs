//! The file of expected counts: its comparison with what was counted, and its update.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::{Counts, Result};

/// In a table of counts: how far a count may be above or below, as a share of it; of one workload
/// where its name stands before. And so much besides:
const TOLERANCE: &str = "tolerance";
const SLACK: &str = "slack";
/// The table of programs.
const TOOLS: &str = "counted_with";

/// The file.
#[derive(Deserialize)]
pub(crate) struct Expected {
    /// The programs with which it was counted, and the first line that each says of its version.
    counted_with: BTreeMap<String, String>,
    /// Of each kind: its tolerance, and counts an event by workload.
    #[serde(flatten)]
    kinds: BTreeMap<String, BTreeMap<String, f64>>,
}

/// A count that is not as expected.
pub(crate) struct Change {
    kind: String,
    work: String,
    was: Option<f64>,
    is: Option<f64>,
}

impl Expected {
    pub(crate) fn read() -> Result<Self> {
        Ok(toml::from_str(&fs::read_to_string(path())?)?)
    }

    /// Prints each count beside what is expected, and returns what is out of its tolerance.
    pub(crate) fn compare(&self, counts: &Counts, wanted: impl Fn(&str) -> bool) -> Vec<Change> {
        let mut changes = Vec::new();
        for (kind, by_work) in counts {
            let title = kind.replace('_', " ");
            println!("\n{title:<24}{:>14}{:>14}", "an event", "expected");
            let expected = self.kinds.get(*kind);
            for (work, is) in by_work {
                let was = expected.and_then(|kind| kind.get(work)).copied();
                let shown = was.map_or("-".to_owned(), number);
                println!("  {work:<22}{:>14}{shown:>14}", number(*is));
                let setting = |name: &str| expected.and_then(|kind| kind.get(name)).copied();
                let share = setting(&format!("{work}_{TOLERANCE}")).or(setting(TOLERANCE));
                let allowed = |was: f64| was * share.unwrap_or(0.0) + setting(SLACK).unwrap_or(0.0);
                let fits = |was: f64| (is - was).abs() <= allowed(was);
                if !was.is_some_and(fits) {
                    changes.push(Change::new(kind, work, was, Some(*is)));
                }
            }
        }
        for (kind, works) in &self.kinds {
            let works = works.iter().filter(|(name, _)| !is_tolerance(name));
            for (work, was) in works.filter(|(work, _)| wanted(work)) {
                let counted = counts.get(&kind[..]).and_then(|works| works.get(work));
                if counted.is_none() {
                    changes.push(Change::new(kind, work, Some(*was), None));
                }
            }
        }
        changes
    }

    /// Says which programs have another version than those with which the file was counted.
    pub(crate) fn other_tools(&self) -> Vec<String> {
        let tools = self.counted_with.iter();
        let other = tools.filter_map(|(tool, was)| {
            let is = version(tool);
            (is != *was).then(|| format!("counted with {was:?}, and this is {is:?}"))
        });
        other.collect()
    }
}

impl Change {
    fn new(kind: &str, work: &str, was: Option<f64>, is: Option<f64>) -> Self {
        Self {
            kind: kind.to_owned(),
            work: work.to_owned(),
            was,
            is,
        }
    }

    /// Returns whether there is less of it than expected.
    pub(crate) fn fell(&self) -> bool {
        matches!((self.was, self.is), (Some(was), Some(is)) if is < was)
    }

    pub(crate) fn in_words(&self) -> String {
        let what = format!("{}: {} an event", self.work, self.kind.replace('_', " "));
        match (self.was, self.is) {
            (Some(was), Some(is)) => {
                let percent = (is - was) / was * 1e2;
                format!(
                    "{what}: was {}, is {} ({percent:+.1} %)",
                    number(was),
                    number(is)
                )
            }
            (Some(_), None) => format!("{what}: expected, but not counted"),
            (None, _) => format!("{what}: counted, but not expected"),
        }
    }
}

/// Writes changed counts into the file, each in the line that it has or at the end of its table.
pub(crate) fn accept(changes: &[Change]) -> Result {
    let text = fs::read_to_string(path())?;
    let mut lines = Vec::new();
    for table in tables(&text) {
        let kind = table[0].trim_matches(['[', ']']);
        let mut new: Vec<&Change> = changes
            .iter()
            .filter(|change| change.kind == kind)
            .collect();
        let mut kept = Vec::new();
        for line in table {
            let name = line.split_once(" = ").map_or("", |(name, _)| name);
            if kind == TOOLS && !name.is_empty() {
                kept.push(format!("{name} = {:?}", version(name)));
                continue;
            }
            match new.iter().position(|change| change.work == name) {
                None => kept.push(line.to_owned()),
                Some(place) => kept.extend(new.remove(place).line()),
            }
        }
        let end = kept
            .iter()
            .rposition(|line| !line.is_empty())
            .map_or(0, |last| last + 1);
        let added: Vec<_> = new.iter().filter_map(|change| change.line()).collect();
        kept.splice(end..end, added);
        lines.extend(kept);
    }
    fs::write(path(), lines.join("\n") + "\n")?;
    for change in changes {
        let table = format!("[{}]", change.kind);
        if !lines.contains(&table) {
            return Err(format!("there is no table {table}: add it, with a tolerance").into());
        }
        println!("accepted: {}", change.in_words());
    }
    Ok(())
}

impl Change {
    /// Its line in the file; none if it goes.
    fn line(&self) -> Option<String> {
        Some(format!("{} = {}", self.work, number(self.is?)))
    }
}

/// The lines of each table; before the first one those of none.
fn tables(text: &str) -> Vec<Vec<&str>> {
    let mut tables = vec![Vec::new()];
    for line in text.lines() {
        if line.starts_with('[') {
            tables.push(Vec::new());
        }
        if let Some(table) = tables.last_mut() {
            table.push(line);
        }
    }
    tables.retain(|table| !table.is_empty());
    tables
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/counts.toml")
}

fn is_tolerance(name: &str) -> bool {
    name.ends_with(TOLERANCE) || name == SLACK
}

fn number(count: f64) -> String {
    match count.abs() {
        size if size >= 1_000.0 => format!("{count:.0}"),
        size if size >= 100.0 => format!("{count:.1}"),
        size if size >= 1.0 => format!("{count:.2}"),
        _ => format!("{count:.4}"),
    }
}

/// The first line that a program says of its version.
fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let said = output.map_or(Vec::new(), |output| output.stdout);
    let said = String::from_utf8_lossy(&said);
    said.lines().next().unwrap_or("not there").to_owned()
}
