//! In how many files a type has methods of its own: whoever looks for one has to know them all.

use std::collections::{BTreeMap, BTreeSet};

use crate::architecture::files::{File, is_name, project};
use crate::architecture::names::declaration;
use crate::architecture::{SOURCES, expect_none};

/// The most files with inherent `impl`s of one type.
const FILES_MAX: usize = 3;

/// Types with more of them: where they are declared, the name, in how many, and why. A number that has
/// become too large is to be lowered here; a larger one needs a better reason than these.
#[rustfmt::skip]
const SPREAD: &[(&str, &str, usize, &str)] = &[
    ("conformance/src/store_contract/world.rs", "World", 12, "the steps of each part of the contract"),
    ("src/bus/dead_letters/mod.rs", "DeadLetters", 4, "one, many and a page have types of their own"),
    ("src/bus/events/mod.rs", "Events", 4, "one, many, a list and a page have types of their own"),
    ("src/bus/handle.rs", "Bus", 22, "each task beside the types of its questions and replies"),
    ("src/bus/inner.rs", "Inner", 8, "what several tasks of the bus share, each with its types"),
    ("src/bus/queue.rs", "Queue", 8, "each use of a queue beside the types that it alone has"),
    ("src/bus/queue_handle.rs", "QueueHandle", 6, "the steps of a push, in order; and replies"),
    ("src/core/engine/bucket.rs", "Bucket", 12, "a file for each group of operations of the store"),
    ("src/core/node/mod.rs", "Node", 6, "a file for each cause of a decision"),
    ("src/core/pull/mod.rs", "Puller", 5, "a file for each cause of a decision"),
    ("src/event/envelope.rs", "Envelope", 4, "each header beside how it is read and written"),
    ("src/store/embedded/shared.rs", "Shared", 7, "what callers, the writer and upkeep do with it"),
];

/// Types whose methods are in more files than three, or in others than so many as listed.
fn more_than_listed(files: &[File], listed: &[(&str, &str, usize, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let found = files_of_types(files);
    for ((at, name), impls) in &found {
        let listed = listed
            .iter()
            .find(|(path, it, ..)| path == at && it == name);
        let allowed = listed.map_or(FILES_MAX, |(_, _, count, _)| *count);
        if impls.len() > allowed || listed.is_some() && impls.len() < allowed {
            let (many, all) = (impls.len(), impls.iter().copied().collect::<Vec<_>>());
            wrong.push(format!(
                "{at}: {name} has methods in {many} files, not {allowed}: {}",
                all.join(" ")
            ));
        }
    }
    for (at, name, ..) in listed {
        if !found.contains_key(&(*at, *name)) {
            wrong.push(format!("{at}: {name} has no methods, and is listed"));
        }
    }
    wrong
}

/// The files with inherent `impl`s of each type, by the file that declares it and its name. Of types of
/// one name an `impl` is of the one that is declared nearest to it.
fn files_of_types(files: &[File]) -> BTreeMap<(&str, &str), BTreeSet<&str>> {
    let mut declared: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut impls = BTreeSet::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (_, line) in file.code() {
            if let Some(name) = declaration(line) {
                declared.entry(name).or_default().insert(&file.path);
            }
            impls.extend(inherent(line).map(|name| (name, file.path.as_str())));
        }
    }
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (name, path) in impls {
        let near = |other: &str| {
            let both = path.bytes().zip(other.bytes());
            both.take_while(|(a, b)| a == b).count()
        };
        let at = declared.get(name).into_iter().flatten();
        if let Some(at) = at.max_by_key(|at| (near(at), **at == path)) {
            found.entry((*at, name)).or_default().insert(path);
        }
    }
    found
}

/// The type whose inherent `impl` begins with a line.
fn inherent(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let mut depth = 0_usize;
    let mut at = 0;
    if rest.starts_with('<') {
        for (index, c) in rest.char_indices() {
            match c {
                '<' => depth += 1,
                '>' if !rest[..index].ends_with('-') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                at = index + 1;
                break;
            }
        }
    }
    let rest = rest.get(at..)?.strip_prefix(' ')?;
    if rest.contains(" for ") || rest.starts_with('!') {
        return None;
    }
    let path = rest.split(|c| !is_name(c) && c != ':').next()?;
    path.rsplit(':').next().filter(|name| !name.is_empty())
}

#[test]
fn the_methods_of_a_type_are_in_few_files() {
    expect_none(&more_than_listed(&project(SOURCES), SPREAD));
}

#[test]
fn types_whose_methods_are_everywhere_are_found() {
    let one = |path: &str, text: &str| File::new(path, text);
    let files = [
        one("src/a/mod.rs", "pub struct Bus;\n\nimpl Bus {\n}\n"),
        one(
            "src/a/b.rs",
            "impl<F: Fn(u8) -> u8> super::Bus {\n}\nimpl Drop for Bus {\n}\n",
        ),
        one("src/a/c.rs", "impl Bus {\n}\n\nimpl Bus {\n}\n"),
        one("src/a/d.rs", "impl<T> Bus<T> {\n}\n"),
        one("src/z/bus.rs", "struct Bus;\nimpl Bus {\n}\n"),
        one(
            "src/a/e.rs",
            "// impl Bus {\n#[cfg(test)]\nmod tests {\n    impl Bus {\n    }\n}\n",
        ),
    ];
    let all = "src/a/b.rs src/a/c.rs src/a/d.rs src/a/mod.rs";
    let wrong = format!("src/a/mod.rs: Bus has methods in 4 files, not 3: {all}");
    assert_eq!(more_than_listed(&files, &[]), [wrong]);
    assert_eq!(
        more_than_listed(&files, &[("src/a/mod.rs", "Bus", 4, "")]),
        [""; 0]
    );
    let wrong = format!("src/a/mod.rs: Bus has methods in 4 files, not 5: {all}");
    assert_eq!(
        more_than_listed(&files, &[("src/a/mod.rs", "Bus", 5, "")]),
        [wrong]
    );
}
