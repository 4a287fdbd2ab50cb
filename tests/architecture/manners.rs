//! How files are kept: short, finished, introduced, run, and named truly in documents.

use std::collections::BTreeSet;

use crate::architecture::files::{File, is_name, words};

/// The lines from which on a file is looked at: it may have taken on a second job.
const LINES_MAX: usize = 400;

/// Files with more lines and one job all the same, each with the reason why it is one.
const LONG: &[(&str, &str)] = &[
    ("server/src/auth/mod.rs", "tokens, and what each may do"),
    (
        "server/src/lmstfy/check.rs",
        "what is checked before a call",
    ),
];

/// Marks of work that was left lying, spelled in halves so that this file holds none of them.
const UNFINISHED: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Files that are long, and not listed as having one job; and listed ones that are not long.
pub(crate) fn long_files(files: &[File]) -> Vec<String> {
    longer_than_listed(files, LONG)
}

fn longer_than_listed(files: &[File], listed: &[(&str, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let (path, lines) = (&file.path, file.text.lines().count());
        let is_listed = listed.iter().any(|(it, _)| it == path);
        match (lines > LINES_MAX, is_listed) {
            (true, false) => wrong.push(format!(
                "{path}: {lines} lines: split it if it has a second job, or list it in `LONG`"
            )),
            (false, true) => wrong.push(format!(
                "{path}: {lines} lines; it can leave the list of long files"
            )),
            (true, true) | (false, false) => {}
        }
    }
    wrong
}

/// Lines that say that something is still to be done.
pub(crate) fn unfinished(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        for (line, number) in file.text.lines().zip(1..) {
            for mark in UNFINISHED {
                if words(line, mark).next().is_some() {
                    wrong.push(format!("{}:{number}: says `{mark}`", file.path));
                }
            }
        }
    }
    wrong
}

/// Log lines of stores at which a panic of the subscriber, which is the program's code, would go on:
/// they stand in tasks that nobody begins again, and in calls on which others wait.
pub(crate) fn uncontained_lines(files: &[File]) -> Vec<String> {
    let is_line = |line: &str| {
        let mut levels = ["error", "warn", "info", "debug", "trace"].into_iter();
        levels.any(|level| line.contains(&format!("tracing::{level}!(")))
    };
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let text = file.text.split("#[cfg(test)]\nmod tests").next();
        let lines: Vec<_> = text.unwrap_or_default().lines().collect();
        for at in (0..lines.len()).filter(|at| is_line(lines[*at])) {
            // A closure that is named first is reported by its name.
            let end = if lines[at].contains("let line = ||") {
                at + 4
            } else {
                at
            };
            let around = &lines[at.saturating_sub(4)..=end.min(lines.len() - 1)];
            if !around.iter().any(|line| line.contains("reported(")) {
                wrong.push(format!(
                    "{}:{}: is not within `panics::reported`",
                    file.path,
                    at + 1
                ));
            }
        }
    }
    wrong
}

/// Targets that do not begin with what they are for.
pub(crate) fn without_opening(files: &[File]) -> Vec<String> {
    let targets = files.iter().filter(|file| is_target(&file.path));
    let mute = targets.filter(|file| !file.text.starts_with("//! "));
    mute.map(|file| format!("{}: does not start with a `//!` line", file.path))
        .collect()
}

/// Files whose header is a question instead of a kind of thing.
pub(crate) fn asking(files: &[File]) -> Vec<String> {
    const QUESTIONS: [&str; 8] = [
        "What", "Which", "How", "Who", "Whose", "When", "Whether", "Why",
    ];
    let headers = files.iter().filter_map(|file| {
        let first = file.text.lines().next()?.strip_prefix("//! ")?;
        Some((file, first.split(|c| !is_name(c)).next()?))
    });
    let asking = headers.filter(|(_, first)| QUESTIONS.contains(first));
    asking
        .map(|(file, first)| format!("{}: begins with {first}", file.path))
        .collect()
}

/// Targets that are not among the lines of `listed`.
pub(crate) fn not_run(files: &[File], listed: &str) -> Vec<String> {
    let listed: BTreeSet<_> = listed.lines().collect();
    let targets = files.iter().filter(|file| is_target(&file.path));
    let forgotten = targets.filter(|file| !listed.contains(file.path.as_str()));
    forgotten
        .map(|file| format!("{}: is not known to .ci/run", file.path))
        .collect()
}

/// Files and folders of tests that are no program in the manifest and no module of one: cargo looks
/// for none by itself.
pub(crate) fn in_no_program(files: &[File], manifest: &str) -> Vec<String> {
    let tables = manifest.split("\n[[test]]\n").skip(1);
    let programs: BTreeSet<_> = tables
        .filter_map(|table| {
            table
                .lines()
                .next()?
                .strip_prefix("name = \"")?
                .split('"')
                .next()
        })
        .collect();
    let is_part_of = |program: &File, name: &str| {
        let line = format!("mod {name};");
        program.text.lines().any(|is| is == line)
    };
    let mut lost = Vec::new();
    for file in files {
        let Some(path) = file.path.strip_prefix("tests/") else {
            continue;
        };
        let name = path
            .strip_suffix("/mod.rs")
            .or(path.strip_suffix("/main.rs"));
        let Some(name) = name
            .or(path.strip_suffix(".rs"))
            .filter(|name| !name.contains('/'))
        else {
            continue;
        };
        let is_part = programs.iter().any(|program| {
            let path = format!("tests/{program}.rs");
            files
                .iter()
                .any(|file| file.path == path && is_part_of(file, name))
        });
        if !is_part && !programs.contains(name) {
            lost.push(format!("{}: no program of tests has it", file.path));
        }
    }
    lost
}

/// Comments and messages that a rename has gone through: a sentence that begins with the name of a
/// type, which is not quoted, and a word before a name of which it is a part.
pub(crate) fn renamed_words(files: &[File]) -> Vec<String> {
    let types: BTreeSet<_> = files.iter().flat_map(types_in).collect();
    let mut wrong = Vec::new();
    for file in files {
        for (line, number) in file.text.lines().zip(1..) {
            let text = line.trim_start();
            let comment = text
                .strip_prefix("//")
                .map(|it| it.trim_start_matches(['/', '!', ' ']));
            let first = comment
                .and_then(|it| it.split(|c| !is_name(c)).next())
                .unwrap_or("");
            let is_compound = first.chars().filter(|c| c.is_uppercase()).count() > 1;
            if is_compound && types.contains(first) {
                wrong.push(format!(
                    "{}:{number}: begins with the type {first}",
                    file.path
                ));
            }
            let is_prose = comment.is_some() || line.contains('"');
            for (word, next) in line.split(' ').zip(line.split(' ').skip(1)) {
                let is_part = next
                    .strip_prefix(word)
                    .is_some_and(|rest| rest.starts_with('_'));
                if is_prose && is_part && word.len() > 3 && word.chars().all(char::is_alphabetic) {
                    wrong.push(format!("{}:{number}: says `{word} {next}`", file.path));
                }
            }
        }
    }
    wrong
}

/// The names of the types that a file declares.
fn types_in(file: &File) -> impl Iterator<Item = &str> {
    let lines = file.text.lines().map(|line| line.trim_start());
    lines.filter_map(|line| {
        let mut words = line.split(|c| !is_name(c)).filter(|word| !word.is_empty());
        let is_kind = |word: &str| matches!(word, "struct" | "enum" | "trait" | "type");
        words.by_ref().take(4).find(|word| is_kind(word))?;
        words.next().filter(|_| !line.starts_with("//"))
    })
}

/// Whether it is a program, or a folder of tests: `tests/a.rs`, `tests/a/main.rs` and
/// `tests/a/mod.rs`, not `tests/a/b.rs`.
fn is_target(path: &str) -> bool {
    let folder = path
        .strip_suffix("/main.rs")
        .or(path.strip_suffix("/mod.rs"));
    let name = folder.or(path.strip_suffix(".rs"));
    name.is_some_and(|name| name.matches('/').count() == 1)
}

/// Paths of the project that a document names and that are not there.
pub(crate) fn dead_paths(documents: &[File], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for document in documents {
        for (line, number) in document.text.lines().zip(1..) {
            for path in paths(line).filter(|path| !exists(path)) {
                wrong.push(format!(
                    "{}:{number}: names {path}, which is not there",
                    document.path
                ));
            }
        }
    }
    wrong
}

/// What in a line looks like a path of the project; one with a star stands for many.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    const FOLDERS: &[&str] = &[
        "src/",
        "conformance/",
        "macros/",
        "options/",
        "tests/",
        "fuzz/",
        "examples/",
        "benches/",
        ".ci/",
    ];
    let words = line.split(|c| !(is_name(c) || matches!(c, '/' | '.' | '-' | '*')));
    let paths = words.map(|word| word.trim_start_matches("../").trim_end_matches('.'));
    paths
        .filter(|path| FOLDERS.iter().any(|folder| path.starts_with(folder)) && !path.contains('*'))
}

#[cfg(test)]
mod made_up {
    use super::*;

    #[test]
    fn a_long_file_is_found_unless_it_is_listed() {
        let files = [
            File::new("src/short.rs", &"\n".repeat(400)),
            File::new("src/long.rs", &"\n".repeat(401)),
        ];
        assert_eq!(
            longer_than_listed(&files, &[]),
            ["src/long.rs: 401 lines: split it if it has a second job, or list it in `LONG`"]
        );
        assert_eq!(
            longer_than_listed(&files, &[("src/long.rs", "a whole")]),
            [""; 0]
        );
    }

    #[test]
    fn a_listed_file_that_is_short_again_is_found() {
        let files = [File::new("src/short.rs", "\n")];
        assert_eq!(
            longer_than_listed(&files, &[("src/short.rs", "a whole")]),
            ["src/short.rs: 1 lines; it can leave the list of long files"]
        );
    }

    #[test]
    fn what_is_left_lying_is_found() {
        for mark in UNFINISHED {
            let found = unfinished(&[File::new("src/a.rs", &format!("\n    // {mark}: later"))]);
            assert_eq!(found, [format!("src/a.rs:2: says `{mark}`")]);
        }
    }

    #[test]
    fn a_sentence_that_a_rename_has_gone_through_is_found() {
        let word = "safety";
        let text = format!(
            "/// DueCounts events by state.\npub(crate) struct DueCounts;\n// The {word} {word}_margin: \
             `DueCounts`.\n/// SplitMix64 is none of ours.\nlet {word} = {word} {word}_it;\n"
        );
        assert_eq!(
            renamed_words(&[File::new("src/a.rs", &text)]),
            [
                "src/a.rs:1: begins with the type DueCounts",
                &format!("src/a.rs:3: says `{word} {word}_margin:`"),
            ]
        );
    }

    #[test]
    fn a_target_without_a_first_line_is_found() {
        let files = [
            File::new("tests/lease.rs", "//! Leases."),
            File::new("tests/store_contract/main.rs", "mod cases;"),
            File::new("tests/store_contract/cases.rs", "mod part;"),
            File::new("examples/hello.rs", "use duly::prelude::*;"),
        ];
        assert_eq!(
            without_opening(&files),
            [
                "tests/store_contract/main.rs: does not start with a `//!` line",
                "examples/hello.rs: does not start with a `//!` line",
            ]
        );
    }

    #[test]
    fn tests_that_no_program_has_are_found() {
        let manifest = "[package]\n\n[[test]]\nname = \"bus\"\n\n[[test]]\nname = \"coming\"\n";
        let files = [
            File::new("tests/bus.rs", "mod lease;\n"),
            File::new("tests/lease/mod.rs", "mod lost;\n"),
            File::new("tests/lease/lost.rs", ""),
            File::new("tests/coming/main.rs", ""),
            File::new("tests/lost/mod.rs", ""),
            File::new("tests/wire.rs", ""),
        ];
        assert_eq!(
            in_no_program(&files, manifest),
            [
                "tests/lost/mod.rs: no program of tests has it",
                "tests/wire.rs: no program of tests has it",
            ]
        );
    }

    #[test]
    fn an_example_that_is_not_run_is_found() {
        let files = [
            File::new("examples/hello.rs", ""),
            File::new("examples/delay.rs", ""),
        ];
        assert_eq!(
            not_run(&files, "examples/hello.rs\nbenches/ring.rs\n"),
            ["examples/delay.rs: is not known to .ci/run"]
        );
    }

    #[test]
    fn a_document_that_names_a_file_that_is_not_there_is_found() {
        let text = "Held by `tests/lease.rs`.\n[the test](../../tests/gone.rs) (src/docs/a.md).";
        let found = dead_paths(&[File::new("README.md", text)], |path| {
            path == "tests/lease.rs"
        });
        assert_eq!(
            found,
            [
                "README.md:2: names tests/gone.rs, which is not there",
                "README.md:2: names src/docs/a.md, which is not there",
            ]
        );
    }
}
