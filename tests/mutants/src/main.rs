//! Plants each mutant of the list into a copy of the project, and sees its test go red.
//!
//! ```text
//! cargo run --manifest-path tests/mutants/Cargo.toml                     all of them
//! cargo run --manifest-path tests/mutants/Cargo.toml -- <mutant>...      these
//! cargo run --manifest-path tests/mutants/Cargo.toml -- --listed [...]   each by its own test alone
//! cargo run --manifest-path tests/mutants/Cargo.toml -- --table          the guide's table
//! ```
//!
//! The copy lies in the target folder and keeps a target folder of its own, so that a mutant costs
//! one small build; the work tree is never touched. First the copy as it is must pass each test that
//! the list names. A mutant that does not compile, or is caught by another test than the list says,
//! is an error of the list; with `--listed` no other test is tried, which saves minutes. The end is 1 if a mutant survived or the list is wrong.

#![allow(clippy::disallowed_methods)] // it watches processes, by the machine's clock

mod copy;
#[path = "../list/mod.rs"]
mod list;
#[path = "../mutant.rs"]
mod mutant;
#[path = "../plant/mod.rs"]
mod plant;
mod tests;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use copy::Copy;
use mutant::{Mutant, Test};
use plant::Edit;
use tests::{Outcome, Tests, Verdict};

/// What is run when the test of the list stays green: what catches it instead belongs in the list.
const WIDER: [&str; 8] = [
    "lib",
    "engine",
    "store_contract",
    "store_model",
    "delivery",
    "embedded",
    "redis_store",
    "simulation",
];

fn main() -> ExitCode {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.iter().any(|name| name == "--table") {
        println!("| mutant | bug | promise | caught by | masked by |\n|---|---|---|---|---|");
        list::all().for_each(|mutant| println!("{}", mutant.row()));
        return ExitCode::SUCCESS;
    }
    let before = wanted.len();
    wanted.retain(|name| name != "--listed");
    let listed_only = wanted.len() < before;
    let chosen: Vec<&Mutant> = list::all()
        .filter(|mutant| wanted.is_empty() || wanted.iter().any(|name| name == mutant.name))
        .collect();
    if chosen.len() < wanted.len() {
        eprintln!("no such mutant among {wanted:?}");
        return ExitCode::from(2);
    }
    match run(&chosen, listed_only) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Answers whether each was caught as the list says.
fn run(chosen: &[&Mutant], listed_only: bool) -> Result<bool, String> {
    let copy = Copy::of_the_project()?;
    let tests = Tests::of(&copy);
    green_as_it_is(&tests, chosen)?;
    let mut rows = Vec::new();
    let mut all_is_well = true;
    for mutant in chosen {
        let began = Instant::now();
        let found = hunt(&copy, &tests, mutant, listed_only)?;
        let row = Row {
            mutant,
            found,
            took: began.elapsed(),
        };
        println!("{}", row.line());
        all_is_well &= matches!(row.found, Found::AsListed(_));
        rows.push(row);
    }
    println!("\nbug -> test that caught it\n");
    rows.iter().for_each(|row| println!("{}", row.line()));
    let caught = rows
        .iter()
        .filter(|row| matches!(row.found, Found::AsListed(_)));
    println!("\n{} of {} caught as listed", caught.count(), rows.len());
    Ok(all_is_well)
}

/// The control: without a mutant, every test that the list names is there and passes.
///
/// Together, which is quick; and one that does not pass among others by itself, as it is run with
/// its mutant.
fn green_as_it_is(tests: &Tests<'_>, chosen: &[&Mutant]) -> Result<(), String> {
    let mut named = BTreeMap::<&str, BTreeSet<&str>>::new();
    for Test { target, name } in chosen.iter().map(|mutant| mutant.caught_by) {
        named.entry(target).or_default().insert(name);
    }
    for (target, names) in named {
        println!("unchanged: {} tests of {target}", names.len());
        let names: Vec<&str> = names.into_iter().collect();
        let together = unchanged(tests, target, &names)?;
        for name in names {
            let is_green = |outcome: &Outcome| {
                let is_it = |test: &String| is_of(test, name);
                outcome.passed.iter().any(is_it) && !outcome.failed.iter().any(is_it)
            };
            if is_green(&together) {
                continue;
            }
            let alone = unchanged(tests, target, &[name])?;
            if !is_green(&alone) {
                return Err(format!(
                    "without a mutant {target}: {name} ended as {alone:?}"
                ));
            }
            println!("unchanged: {name} of {target} is green by itself alone");
        }
    }
    Ok(())
}

fn unchanged(tests: &Tests<'_>, target: &str, names: &[&str]) -> Result<Outcome, String> {
    match tests.run(target, names)? {
        Verdict::DoesNotCompile(words) => Err(words),
        Verdict::Ended(outcome) => Ok(outcome),
    }
}

enum Found {
    /// By tests of that name.
    AsListed(String),
    /// The test of the list stayed green, and another one went red.
    Elsewhere(String),
    /// Nothing noticed.
    Nowhere,
    /// The bug alone was caught, so nothing masks it.
    NotMasked(String),
    DoesNotCompile(String),
}

struct Row<'a> {
    mutant: &'a Mutant,
    found: Found,
    took: Duration,
}

impl Row<'_> {
    fn line(&self) -> String {
        let words = match (&self.found, self.mutant.masked_by) {
            (Found::AsListed(test), None) => format!("caught by {test}"),
            (Found::AsListed(test), Some(masked)) => {
                format!("masked: {}; both caught by {test}", masked.by)
            }
            (Found::Nowhere, _) => "SURVIVED".to_owned(),
            (Found::Elsewhere(test), _) => format!("NOT AS LISTED: caught by {test}"),
            (Found::NotMasked(test), _) => format!("NOT MASKED: caught by {test}"),
            (Found::DoesNotCompile(words), _) => format!("DOES NOT COMPILE: {words}"),
        };
        let (name, promise) = (self.mutant.name, self.mutant.breaks.title());
        format!(
            "{name} | {promise} | {words} | {:.0} s",
            self.took.as_secs_f64()
        )
    }
}

fn hunt(
    copy: &Copy,
    tests: &Tests<'_>,
    mutant: &Mutant,
    listed_only: bool,
) -> Result<Found, String> {
    let alone = planted(copy, tests, mutant.edits, mutant.caught_by)?;
    let Some(masked) = mutant.masked_by else {
        return match alone {
            Verdict::DoesNotCompile(words) => Ok(Found::DoesNotCompile(words)),
            Verdict::Ended(outcome) if outcome.is_red() => {
                Ok(Found::AsListed(outcome.red(mutant.caught_by.name)))
            }
            Verdict::Ended(_) if listed_only => Ok(Found::Nowhere),
            Verdict::Ended(_) => wider(copy, tests, mutant),
        };
    };
    match alone {
        Verdict::DoesNotCompile(words) => return Ok(Found::DoesNotCompile(words)),
        Verdict::Ended(outcome) if outcome.is_red() => {
            return Ok(Found::NotMasked(outcome.red(mutant.caught_by.name)));
        }
        Verdict::Ended(_) => {}
    }
    let both = [mutant.edits, masked.edits].concat();
    match planted(copy, tests, &both, mutant.caught_by)? {
        Verdict::DoesNotCompile(words) => Ok(Found::DoesNotCompile(words)),
        Verdict::Ended(outcome) if outcome.is_red() => {
            Ok(Found::AsListed(outcome.red(mutant.caught_by.name)))
        }
        Verdict::Ended(_) => Ok(Found::Nowhere),
    }
}

/// Runs one test with the edits made, and takes them back.
fn planted(copy: &Copy, tests: &Tests<'_>, edits: &[Edit], test: Test) -> Result<Verdict, String> {
    let _planted = copy.plant(edits)?;
    tests.run(test.target, &[test.name])
}

/// What else goes red, in the first of the wider suites in which something does.
fn wider(copy: &Copy, tests: &Tests<'_>, mutant: &Mutant) -> Result<Found, String> {
    let _planted = copy.plant(mutant.edits)?;
    for target in WIDER {
        if let Verdict::Ended(outcome) = tests.run(target, &[])?
            && outcome.is_red()
        {
            let test = format!("{} in {target}", outcome.red("something"));
            return Ok(Found::Elsewhere(test));
        }
    }
    Ok(Found::Nowhere)
}

/// Whether a test's whole name ends with the name of this function.
fn is_of(whole: &str, function: &str) -> bool {
    let before = whole.strip_suffix(function);
    before.is_some_and(|before| before.is_empty() || before.ends_with("::"))
}
