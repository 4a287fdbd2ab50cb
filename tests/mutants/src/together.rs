//! All mutants that can be variants of their functions, in one build: each costs the run of its test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::copy::{Copy, Planted};
use crate::mutant::{Mutant, Test};
use crate::plant::variants::{Bug, Variants, variants};
use crate::tests::{Built, NotBuilt, RUN_MAX, Tests};
use crate::{Found, Row};

/// How often bugs that do not compile are taken out, before it is given up.
const ROUNDS_MAX: usize = 12;

/// The time for a test with a bug: as often what it takes without one, and some more.
const SLOWER_MAX: u32 = 10;
const SPARE: Duration = Duration::from_secs(60);

/// Tests that measure time, or count on a server that is never starved: nothing runs beside them.
const BY_THEMSELVES: [&str; 5] = [
    "sentinel",
    "a_store_opens_in_the_middle_of_a_failover",
    "no_script_keeps_a_server_for_long",
    "pushes_to_a_server_that_has_stopped_end_in_their_time",
    "no_seed_breaks_a_promise",
];

const BESIDE: &str = "it does not compile beside the others";

type ByItself = (&'static Mutant, String);
type Apart = BTreeMap<&'static str, String>;

/// Answers which are judged, and which must be planted by themselves and why.
pub fn run(
    copy: &Copy,
    tests: &Tests<'_>,
    chosen: &[&'static Mutant],
) -> Result<(Vec<Row>, Vec<ByItself>), String> {
    let (_planted, built, mut apart) = built(copy, tests, chosen)?;
    let (limits, red) = without_a_bug(&built, chosen)?;
    let together = chosen.iter().copied();
    let together = together.filter(|mutant| {
        !apart.contains_key(mutant.name) && limits.contains_key(&key(mutant.caught_by))
    });
    let together: Vec<_> = together.collect();
    println!(
        "{} are built together, {} are not",
        together.len(),
        apart.len()
    );
    let test = |mutant: &&'static Mutant| mutant.caught_by;
    let found = side_by_side(&together, test, |mutant| {
        let began = Instant::now();
        let limit = limits
            .get(&key(mutant.caught_by))
            .copied()
            .unwrap_or(RUN_MAX);
        let run = |on: &str| {
            let Test { target, name } = mutant.caught_by;
            built.run(target, &[name], on, limit)
        };
        let alone = run(mutant.name)?;
        let both = match mutant.masked_by {
            Some(_) if !alone.is_red() => Some(run(&without_mask(mutant))?),
            _ => None,
        };
        let row = Row {
            mutant,
            found: Found::of(mutant, Ok(alone), both.map(Ok)),
            took: began.elapsed(),
        };
        println!("{}", row.line());
        Ok(row)
    })?;
    let mut rows = red;
    for row in found {
        if matches!(row.found, Found::AsListed(_)) {
            rows.push(row);
        } else {
            apart.insert(
                row.mutant.name,
                "not caught as listed among the others".into(),
            );
        }
    }
    let apart = chosen.iter().copied().filter_map(|mutant| {
        limits.get(&key(mutant.caught_by))?;
        let why = apart.remove(mutant.name)?;
        Some((mutant, why))
    });
    Ok((rows, apart.collect()))
}

/// The name that a mutant has where what masks it is taken away as well.
fn without_mask(mutant: &Mutant) -> String {
    format!("{} without its mask", mutant.name)
}

fn bugs(mutant: &Mutant) -> Vec<Bug> {
    let edits = mutant.edits.to_vec();
    let both = mutant.masked_by.map(|masked| Bug {
        name: without_mask(mutant),
        edits: [&edits, masked.edits].concat(),
    });
    let alone = Bug {
        name: mutant.name.to_owned(),
        edits,
    };
    [alone].into_iter().chain(both).collect()
}

/// Builds the tests with as many mutants as compile.
fn built<'a>(
    copy: &'a Copy,
    tests: &Tests<'_>,
    chosen: &[&'static Mutant],
) -> Result<(Planted<'a>, Built, Apart), String> {
    let targets: BTreeSet<&str> = chosen
        .iter()
        .map(|mutant| mutant.caught_by.target)
        .collect();
    let tree = copy.tree()?;
    let mut apart = Apart::new();
    for round in 1..=ROUNDS_MAX {
        let left = chosen
            .iter()
            .filter(|mutant| !apart.contains_key(mutant.name));
        let bugs: Vec<Bug> = left.flat_map(|mutant| bugs(mutant)).collect();
        let mut all = variants(&bugs, &tree);
        let before = apart.len();
        for mutant in chosen {
            if let Some(why) = bugs_of(mutant, &all.apart) {
                println!("by itself: {}, {why}", mutant.name);
                apart.insert(mutant.name, why);
            }
        }
        if apart.len() > before {
            continue; // without the parts of a mutant that is not planted as a whole
        }
        let planted = copy.write(std::mem::take(&mut all.changed))?;
        println!("round {round}: {} bugs are built together", bugs.len());
        let why = match tests.build(&targets) {
            Ok(built) => return Ok((planted, built, apart)),
            Err(why) => why,
        };
        let wrong = at_fault(copy, &all, &why);
        if wrong.is_empty() {
            return Err(why.words);
        }
        for mutant in chosen {
            if bugs_of(mutant, &wrong).is_some() {
                println!("by itself: {}, {BESIDE}", mutant.name);
                apart.insert(mutant.name, BESIDE.to_owned());
            }
        }
        let errors = why.words.lines().filter(|line| line.starts_with("error"));
        errors.for_each(|line| println!("{line}"));
    }
    Err(format!(
        "after {ROUNDS_MAX} rounds it does still not compile"
    ))
}

/// What is said of any of a mutant's bugs.
fn bugs_of(mutant: &Mutant, said: &BTreeMap<String, String>) -> Option<String> {
    let mut names = bugs(mutant).into_iter().map(|bug| bug.name);
    names.find_map(|name| said.get(&name).cloned())
}

/// The bugs that the compiler's errors are about: those whose variants they are in, or, where they are
/// in none, those of the function.
fn at_fault(copy: &Copy, all: &Variants, why: &NotBuilt) -> BTreeMap<String, String> {
    let is_at = |path: &Path, bytes: &std::ops::Range<usize>| {
        let path = copy.folder().join(path).canonicalize().unwrap_or_default();
        let mut places = why.places.iter();
        places.any(|(of, from, to)| *of == path && bytes.start <= *from && *to <= bytes.end)
    };
    let mut wrong = BTreeMap::new();
    for in_body in [false, true] {
        for one in &all.places {
            let bytes = if in_body { &one.body } else { &one.bytes };
            if is_at(&one.path, bytes) {
                wrong.insert(one.name.clone(), String::new());
            }
        }
        if !wrong.is_empty() {
            break;
        }
    }
    wrong
}

fn key(test: Test) -> (&'static str, &'static str) {
    (test.target, test.name)
}

type Limits = BTreeMap<(&'static str, &'static str), Duration>;

/// The control: without a bug every test that the list names is there and passes. Answers how long each
/// may take with one, and the mutants of those that do not.
fn without_a_bug(built: &Built, chosen: &[&'static Mutant]) -> Result<(Limits, Vec<Row>), String> {
    let of_mutant = |mutant: &&'static Mutant| (key(mutant.caught_by), mutant.caught_by);
    let tests: BTreeMap<_, Test> = chosen.iter().map(of_mutant).collect();
    println!("without a bug: {} tests", tests.len());
    let tests: Vec<Test> = tests.into_values().collect();
    let run = |test: &Test| {
        let began = Instant::now();
        let outcome = built.run(test.target, &[test.name], "", RUN_MAX)?;
        Ok((*test, outcome, began.elapsed()))
    };
    let (mut limits, mut red) = (Limits::new(), Vec::new());
    for (test, mut outcome, took) in side_by_side(&tests, |test| *test, run)? {
        let Test { target, name } = test;
        if !outcome.is_green(name) {
            println!("without a bug: {name} of {target} once more, by itself");
            outcome = built.run(target, &[name], "", RUN_MAX)?;
        }
        if outcome.is_green(name) {
            limits.insert(key(test), (took * SLOWER_MAX + SPARE).min(RUN_MAX));
            continue;
        }
        let of_test = chosen
            .iter()
            .filter(|mutant| key(mutant.caught_by) == key(test));
        red.extend(of_test.map(|mutant| Row {
            mutant,
            found: Found::WithoutIt(format!("{outcome:?}")),
            took,
        }));
    }
    red.iter().for_each(|row| println!("{}", row.line()));
    Ok((limits, red))
}

/// Does something with each, several at a time, but alone where a test wants that; in their order.
fn side_by_side<T: Sync, R: Send>(
    all: &[T],
    test: impl Fn(&T) -> Test + Sync,
    run: impl Fn(&T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let at_a_time = std::thread::available_parallelism().map_or(2, |cores| 2 * cores.get());
    let (next, alone, done) = (Mutex::new(0), RwLock::new(()), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                loop {
                    let at = {
                        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                        *next += 1;
                        *next - 1
                    };
                    let Some(one) = all.get(at) else {
                        break;
                    };
                    let name = test(one).name;
                    let ended = if BY_THEMSELVES.iter().any(|alone| name.contains(alone)) {
                        let _alone = alone.write().unwrap_or_else(PoisonError::into_inner);
                        run(one)
                    } else {
                        let _beside = alone.read().unwrap_or_else(PoisonError::into_inner);
                        run(one)
                    };
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.insert(at, ended);
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_values().collect()
}
