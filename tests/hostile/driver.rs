//! Runs a target over its corpus, and over what becomes of the corpus when it is changed at random.

use std::any::Any;
use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fastrand::Rng;
use xxhash_rust::xxh3::xxh3_64;

use crate::hostile::mutate::mutated;

/// How many changed inputs each target is given.
const CASES: u64 = 1_000;
/// Longer ones are replayed, and not changed: they are about length itself.
const CHANGED_BYTES_MAX: usize = 4_096;
/// How often a failing input is run to make it smaller.
const TRIES: usize = 2_000;

pub(crate) type Target = fn(&[u8]);

/// Replays the corpus of `name`, and goes on from there to the first input that fails.
pub(crate) fn run(name: &str, target: Target) {
    let corpus = corpus(name);
    let fails = |(path, bytes): &(PathBuf, Vec<u8>)| {
        let why = tried(target, bytes).err()?;
        Some(format!("{name} fails on {}: {why}", path.display()))
    };
    let failures: Vec<_> = corpus.iter().filter_map(fails).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    let seeds: Vec<_> = corpus.into_iter().map(|(_, bytes)| bytes).collect();
    let seed = number("DULY_FUZZ_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let cases = number("DULY_FUZZ_CASES").unwrap_or(CASES);
    // Past what a test's output is caught by: an input that ends the process leaves nothing else.
    let _ = writeln!(
        std::io::stderr(),
        "{name}: DULY_FUZZ_SEED={seed} DULY_FUZZ_CASES={cases}"
    );
    let mut rng = Rng::with_seed(seed);
    for case in 0..cases {
        let bytes = mutated(&seeds, CHANGED_BYTES_MAX, &mut rng);
        if let Err(why) = tried(target, &bytes) {
            let small = smaller(target, bytes);
            let path = keep(name, &small);
            panic!(
                "{name} fails in case {case} of seed {seed}: {why}\n{} bytes that fail are kept in \
                 {}; again: cargo test --test bus hostile::{name}",
                small.len(),
                path.display(),
            );
        }
    }
}

/// The names of what lies in a folder of the project.
pub(crate) fn names(folder: &str) -> Vec<String> {
    let path = root().join(folder);
    let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("a folder can be read").file_name();
        name.into_string().expect("a name is text")
    };
    entries.map(name).collect()
}

/// The texts of the files in a folder of the repository.
pub(crate) fn sources(folder: &str) -> Vec<String> {
    let files = names(folder).into_iter();
    let read = |name: String| fs::read_to_string(root().join(folder).join(name));
    files
        .map(|name| read(name).expect("a file can be read"))
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn folder(target: &str) -> PathBuf {
    root().join("tests/hostile/corpus").join(target)
}

/// The inputs of a target, in the order of their names.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut names = names(&format!("tests/hostile/corpus/{target}"));
    names.sort_unstable(); // a folder is read in any order
    let paths = names.iter().map(|name| folder(target).join(name));
    let corpus: Vec<_> = paths
        .map(|path| {
            let bytes = fs::read(&path).expect("a file of the corpus can be read");
            (path, bytes)
        })
        .collect();
    assert!(!corpus.is_empty(), "{target} has no corpus");
    corpus
}

fn tried(target: Target, bytes: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| target(bytes))).map_err(|panic| said(panic.as_ref()))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

/// Leaves out of a failing input what it fails without, as far as a bounded number of tries goes.
fn smaller(target: Target, mut bytes: Vec<u8>) -> Vec<u8> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {})); // two thousand panics are the same one
    let (mut tries, mut part) = (0, bytes.len().div_ceil(2));
    while part > 0 && tries < TRIES {
        let mut at = 0;
        while at < bytes.len() && tries < TRIES {
            let end = bytes.len().min(at + part);
            let rest = [&bytes[..at], &bytes[end..]].concat();
            tries += 1;
            match tried(target, &rest) {
                Err(_) => bytes = rest,
                Ok(()) => at = end,
            }
        }
        part /= 2;
    }
    std::panic::set_hook(hook);
    bytes
}

/// Writes a failing input where it will be replayed.
fn keep(target: &str, bytes: &[u8]) -> PathBuf {
    let path = folder(target).join(format!("{:016x}", xxh3_64(bytes)));
    fs::write(&path, bytes).expect("the corpus can be written");
    path
}

fn number<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{variable} is {text:?}, it is a whole number")))
}
