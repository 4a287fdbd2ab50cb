//! The result table: a line for each figure, a column for each contender, and ratios to duly.

mod summary;

use std::collections::BTreeMap;

use crate::Result;
use crate::contenders::{DULY, Entry};
use crate::plan::Plan;
use crate::server::Programs;
use crate::work::Work;

const COLUMN: usize = 18;
const LABEL: usize = 24;

/// What was measured, of each work, contender and name: a value a pass.
#[derive(Default)]
pub struct Table {
    values: BTreeMap<(&'static str, &'static str), BTreeMap<String, Vec<f64>>>,
    failures: Vec<(&'static str, &'static str, String)>,
    left_out: Vec<(&'static str, String)>,
}

impl Table {
    pub fn add(&mut self, work: Work, contender: &'static str, figures: Vec<(String, f64)>) {
        let kept = self.values.entry((work.name(), contender)).or_default();
        for (name, value) in figures {
            kept.entry(name).or_default().push(value);
        }
    }

    pub fn fail(&mut self, work: Work, contender: &'static str, error: &str) {
        self.failures
            .push((work.name(), contender, error.to_owned()));
    }

    /// Says why a contender is not measured, at once and below the table.
    pub fn leave_out(&mut self, contender: &'static str, lack: &str) {
        eprintln!("{contender} is left out: {lack}");
        self.left_out.push((contender, lack.to_owned()));
    }

    pub fn print(&self, plan: &Plan, programs: &Programs, columns: &[Entry]) {
        let kept = match plan.aof {
            true => "servers append to a file and sync it each second",
            false => "servers keep nothing",
        };
        let redis = programs.redis_version.as_deref().unwrap_or("not there");
        println!();
        println!(
            "Redis {redis}; {kept}; 64-byte payloads; medians of {} passes.",
            plan.passes
        );
        println!("In parentheses: how many times the figure of duly.");
        print!("\n{:<LABEL$}", "");
        for entry in columns {
            print!("{:>COLUMN$}", entry.name);
        }
        println!();
        for work in Work::ALL.into_iter().filter(|work| plan.has_work(*work)) {
            println!("\n{}", work.title(plan.size));
            for line in LINES {
                self.print_line(work, line, columns);
            }
            self.print_summary(work, columns);
        }
        for (work, contender, error) in &self.failures {
            println!("\n{contender}, {work}: {error}");
        }
        for (contender, lack) in &self.left_out {
            println!("\n{contender} is left out: {lack}");
        }
    }

    fn print_summary(&self, work: Work, columns: &[Entry]) {
        let Some((line, bases)) = self.summary(work, columns) else {
            return;
        };
        for (name, base) in bases.into_iter().flatten() {
            print!("{:<LABEL$}", format!("  {line} of {name}"));
            for entry in columns {
                let value = self.value(work, entry.name, line);
                let ratio = value.map_or("-".to_owned(), |value| format!("{:.2}", value / base));
                print!("{ratio:>COLUMN$}");
            }
            println!();
        }
    }

    fn print_line(&self, work: Work, line: &str, columns: &[Entry]) {
        let value = |contender| self.value(work, contender, line);
        let values: Vec<_> = columns.iter().map(|entry| value(entry.name)).collect();
        let worth = match line {
            "missing" | "doubled" | "of only" => values.iter().flatten().any(|it| *it != 0.0),
            _ => values.iter().any(Option::is_some),
        };
        if !worth {
            return;
        }
        print!("{:<LABEL$}", format!("  {line}"));
        let base = value(DULY).filter(|base| base.abs() > 0.0 && counts_up_to_ratio(line));
        for (entry, value) in columns.iter().zip(values) {
            let ratio = value.zip(base).filter(|_| entry.name != DULY);
            let ratio = ratio.map_or(String::new(), |(value, base)| {
                format!(" ({:.2})", value / base)
            });
            let value = value.map_or("-".to_owned(), number);
            print!("{:>COLUMN$}", format!("{value}{ratio}"));
        }
        println!();
    }

    /// The median over the passes; of what must not happen, the worst.
    fn value(&self, work: Work, contender: &'static str, name: &str) -> Option<f64> {
        let mut passes = self
            .values
            .get(&(work.name(), contender))?
            .get(name)?
            .clone();
        passes.sort_by(f64::total_cmp);
        match name {
            "missing" | "doubled" | "early" => passes.last().copied(),
            _ => Some((passes[(passes.len() - 1) / 2] + passes[passes.len() / 2]) / 2.0),
        }
    }

    /// Whether duly did what it promises.
    ///
    /// # Errors
    ///
    /// When it did not, or could not be measured.
    pub fn verdict(&self) -> Result {
        for work in Work::ALL {
            for wrong in ["missing", "doubled", "early"] {
                if self.value(work, DULY, wrong).is_some_and(|it| it > 0.0) {
                    return Err(format!("duly, {}: events were {wrong}", work.name()).into());
                }
            }
        }
        let mut failures = self.failures.iter();
        match failures.find(|(_, contender, _)| *contender == DULY) {
            Some((work, _, error)) => Err(format!("duly, {work}: {error}").into()),
            None => Ok(()),
        }
    }
}

/// Every figure that a work may give, in the order in which they are shown.
const LINES: [&str; 15] = [
    "events/s",
    "server cpu us",
    "own cpu us",
    "server bytes",
    "p50 ms",
    "p99 ms",
    "max ms",
    "last ms",
    "early",
    "missing",
    "doubled",
    "of only",
    "server commands/s",
    "server % of a core",
    "own % of a core",
];

fn counts_up_to_ratio(line: &str) -> bool {
    !matches!(line, "early" | "missing" | "doubled" | "of only")
}

fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value == value.trunc() => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
