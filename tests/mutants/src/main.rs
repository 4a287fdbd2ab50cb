//! Plants each mutant of the list into a copy of the project, and sees its test go red.
//!
//! ```text
//! cargo run --manifest-path tests/mutants/Cargo.toml                     all of them
//! cargo run --manifest-path tests/mutants/Cargo.toml -- <mutant>...      these
//! cargo run --manifest-path tests/mutants/Cargo.toml -- --listed [...]   each by its own test alone
//! cargo run --manifest-path tests/mutants/Cargo.toml -- --table          the guide's table
//! ```
//!
//! The copy lies in the target folder and keeps a target folder of its own; the work tree is never
//! touched. Bugs within functions are built together and switched on one by one; one that cannot be
//! built so, or is not caught as listed there, is planted by itself, which costs a build. First the
//! copy without a bug must pass each test that the list names. A mutant that does not compile, or is
//! caught by another test than the list says, is an error of the list; with `--listed` no other test
//! is tried, which saves minutes. The end is 1 if a mutant survived or the list is wrong.

#![allow(clippy::disallowed_methods)] // it watches processes, by the machine's clock

mod copy;
#[path = "../list/mod.rs"]
mod list;
#[path = "../mutant.rs"]
mod mutant;
#[path = "../plant/mod.rs"]
mod plant;
mod tests;
mod together;
mod watched;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use copy::Copy;
use mutant::{Mutant, Test};
use plant::Edit;
use tests::{NotBuilt, Outcome, RUN_MAX, Tests};

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
    let chosen: Vec<&'static Mutant> = list::all()
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
fn run(chosen: &[&'static Mutant], listed_only: bool) -> Result<bool, String> {
    let copy = Copy::of_the_project()?;
    let tests = Tests::of(&copy);
    let (mut rows, apart) = together::run(&copy, &tests, chosen)?;
    println!("\n{} by themselves\n", apart.len());
    for (mutant, why) in apart {
        println!("{}: {why}", mutant.name);
        let began = Instant::now();
        let found = hunt(&copy, &tests, mutant, listed_only)?;
        let row = Row {
            mutant,
            found,
            took: began.elapsed(),
        };
        println!("{}", row.line());
        rows.push(row);
    }
    println!("\nbug -> test that caught it\n");
    rows.iter().for_each(|row| println!("{}", row.line()));
    let caught = rows
        .iter()
        .filter(|row| matches!(row.found, Found::AsListed(_)));
    let (caught, all) = (caught.count(), rows.len());
    println!("\n{caught} of {all} caught as listed");
    Ok(caught == all)
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
    /// The test of the list is not green without the bug.
    WithoutIt(String),
}

struct Row {
    mutant: &'static Mutant,
    found: Found,
    took: Duration,
}

impl Row {
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
            (Found::WithoutIt(how), _) => format!("NOT GREEN WITHOUT IT: {how}"),
        };
        let (name, promise) = (self.mutant.name, self.mutant.breaks.title());
        format!(
            "{name} | {promise} | {words} | {:.0} s",
            self.took.as_secs_f64()
        )
    }
}

/// Plants a mutant by itself.
fn hunt(
    copy: &Copy,
    tests: &Tests<'_>,
    mutant: &Mutant,
    listed_only: bool,
) -> Result<Found, String> {
    let alone = planted(copy, tests, mutant.edits, mutant.caught_by)?;
    let both = match (mutant.masked_by, &alone) {
        (Some(masked), Ok(outcome)) if !outcome.is_red() => {
            let edits = [mutant.edits, masked.edits].concat();
            Some(planted(copy, tests, &edits, mutant.caught_by)?)
        }
        _ => None,
    };
    match Found::of(mutant, alone, both) {
        Found::Nowhere if !listed_only && mutant.masked_by.is_none() => wider(copy, tests, mutant),
        found => Ok(found),
    }
}

impl Found {
    /// What it means how a mutant's test ended, and how with its mask taken away as well.
    fn of(
        mutant: &Mutant,
        alone: Result<Outcome, NotBuilt>,
        both: Option<Result<Outcome, NotBuilt>>,
    ) -> Self {
        let name = mutant.caught_by.name;
        match (alone, both) {
            (Err(why), _) | (_, Some(Err(why))) => Self::DoesNotCompile(why.words),
            (Ok(alone), _) if alone.is_red() && mutant.masked_by.is_some() => {
                Self::NotMasked(alone.red(name))
            }
            (Ok(one), None) | (_, Some(Ok(one))) if one.is_red() => Self::AsListed(one.red(name)),
            _ => Self::Nowhere,
        }
    }
}

/// Runs one test with the edits made, and takes them back.
fn planted(
    copy: &Copy,
    tests: &Tests<'_>,
    edits: &[Edit],
    test: Test,
) -> Result<Result<Outcome, NotBuilt>, String> {
    let _planted = copy.plant(edits)?;
    let built = match tests.build(&BTreeSet::from([test.target])) {
        Ok(built) => built,
        Err(why) => return Ok(Err(why)),
    };
    Ok(Ok(built.run(test.target, &[test.name], "", RUN_MAX)?))
}

/// What else goes red, in the first of the wider suites in which something does.
fn wider(copy: &Copy, tests: &Tests<'_>, mutant: &Mutant) -> Result<Found, String> {
    let _planted = copy.plant(mutant.edits)?;
    for target in WIDER {
        let Ok(built) = tests.build(&BTreeSet::from([target])) else {
            continue;
        };
        let outcome = built.run(target, &[], "", RUN_MAX)?;
        if outcome.is_red() {
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
