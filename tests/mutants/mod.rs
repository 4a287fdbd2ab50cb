//! Tests of the list of mutants: every bug can still be planted, and the guide shows the list.
//!
//! That each bug is also caught is shown by a program of its own: `cargo run
//! --manifest-path tests/mutants/Cargo.toml`.

mod lasting;
mod list;
mod locals;
mod operations;
mod planting;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::mutant::{Mutant, Promise};
use crate::plant::{Tree, planted};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

fn expect_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn every_bug_can_be_planted() {
    let tree = Tree::read(root()).expect("the sources can be read");
    let mut wrong = Vec::new();
    for mutant in list::all() {
        let more = mutant.masked_by.map_or(&[][..], |masked| masked.edits);
        let planted = planted(&[mutant.edits, more].concat(), &tree);
        wrong.extend(planted.err().map(|why| format!("{}: {why}", mutant.name)));
    }
    expect_none(&wrong);
}

#[test]
fn every_bug_has_a_name_of_its_own() {
    let mut names = BTreeSet::new();
    let twice = list::all().filter(|mutant| !names.insert(mutant.name));
    let twice: Vec<_> = twice.map(|mutant| mutant.name.to_owned()).collect();
    expect_none(&twice);
}

#[test]
fn every_promise_is_broken_in_two_ways_at_least() {
    let count = |promise| {
        list::all()
            .filter(|mutant| mutant.breaks == promise)
            .count()
    };
    let few = Promise::ALL
        .iter()
        .filter(|(promise, _)| count(*promise) < 2);
    let few: Vec<_> = few.map(|(promise, _)| promise.title()).collect();
    expect_none(&few);
}

#[test]
fn every_test_that_catches_a_bug_is_there() {
    let there = |mutant: &Mutant| {
        let test = mutant.caught_by;
        let places: &[PathBuf] = match test.target {
            "lib" => &["src".into()],
            "store_contract" => &["conformance/src/store_contract".into()],
            "server" => &["server/tests".into()],
            "outbox" => &["outbox/tests".into()],
            "pages" => &["dashboards/web/tests".into()],
            target => &[
                PathBuf::from("tests").join(target),
                PathBuf::from("tests").join(format!("{target}.rs")),
            ],
        };
        let mut files = places
            .iter()
            .flat_map(|place| rust_files(&root().join(place)));
        files.any(|text| names_test(&text, test.name))
    };
    let gone = list::all().filter(|mutant| !there(mutant));
    let gone: Vec<_> = gone
        .map(|mutant| format!("{}: {:?}", mutant.name, mutant.caught_by))
        .collect();
    expect_none(&gone);
}

#[test]
fn the_guide_shows_the_list_as_it_is() {
    let guide = read("src/docs/proof.md");
    let shown = guide
        .lines()
        .skip_while(|line| !line.starts_with("| mutant |"));
    let shown: Vec<_> = shown
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    let listed: Vec<_> = list::all().map(Mutant::row).collect();
    let missing = listed.iter().filter(|row| !shown.contains(&row.as_str()));
    let surplus = shown
        .iter()
        .filter(|row| !listed.iter().any(|is| is == *row));
    let mut wrong: Vec<_> = missing.map(|row| format!("missing: {row}")).collect();
    wrong.extend(surplus.map(|row| format!("surplus: {row}")));
    expect_none(&wrong);
    assert_eq!(shown, listed, "in another order");
}

/// Whether a test of this name is written down there, as a function or in a macro's list.
fn names_test(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let is_name = |c: char| c == '_' || c.is_alphanumeric();
        let before = &text[..at];
        !before.ends_with(is_name)
            && !before.ends_with("mod ") // a module holds tests, and is none
            && !text[at + name.len()..].starts_with(is_name)
    })
}

/// The texts of every Rust file there.
fn rust_files(place: &Path) -> Vec<String> {
    if place.is_file() {
        return vec![fs::read_to_string(place).expect("it can be read")];
    }
    let Ok(entries) = fs::read_dir(place) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("a folder can be read").path());
    let paths = paths.filter(|path| path.is_dir() || path.extension().is_some_and(|is| is == "rs"));
    paths.flat_map(|path| rust_files(&path)).collect()
}
