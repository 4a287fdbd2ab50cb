//! The architecture, as tests: the allowed imports of each module, and the rules for texts.
//!
//! Each check is a function from files to complaints. Here they run over the files of the project;
//! beside each are tests that pass it made-up files and expect its complaint, to prove that the
//! check can fail.

mod circles;
mod counted;
mod documents;
pub(crate) mod files;
mod guides;
mod impls;
mod links;
mod manners;
mod names;
mod packages;
mod proxy;
mod rooms;
mod scripts;

use std::collections::BTreeSet;
use std::process::Command;

use files::{File, project, root};

use crate::plant::Tree;

/// Where the code of the project's packages is.
const SOURCES: &[&str] = &[
    "src",
    "conformance/src",
    "dashboards/web/src",
    "macros/src",
    "options/src",
    "outbox/src",
    "server/src",
];

#[test]
fn imports_point_down() {
    expect_none(&rooms::imports_not_down(&project(&["src"])));
    expect_none(&rooms::flow_imports_not_down(&project(&["src/flow"])));
}

#[test]
fn modules_of_a_room_know_each_other_in_one_direction() {
    let files = project(SOURCES);
    let rooms = SOURCES
        .iter()
        .flat_map(|source| circles::rooms(&files, source));
    let wrong = rooms.flat_map(|room| {
        let circles = circles::unlisted(&files, room);
        circles.into_iter().chain(circles::by_front(&files, room))
    });
    expect_none(&wrong.collect::<Vec<_>>());
}

#[test]
fn connections_to_redis_know_no_operation() {
    expect_none(&rooms::link_knows_too_much(&project(&[
        "src/store/redis/link",
    ])));
    let text = "use crate::store::redis::link::url::Target;\nuse crate::core::op::StoreOp;\n";
    let made_up = File::new("src/store/redis/link/x.rs", text);
    assert_eq!(rooms::link_knows_too_much(&[made_up]).len(), 1);
}

#[test]
fn each_foreign_package_has_one_room() {
    expect_none(&rooms::packages_out_of_their_room(&project(&["src"])));
}

#[test]
fn core_is_pure() {
    expect_none(&rooms::impurities(&project(&["src/core"])));
}

#[test]
fn authors_of_stores_and_programs_need_nothing_hidden() {
    let files = project(&["conformance/src", "examples", "dashboards/web/src"]);
    let hidden = ["__internal", "__private", "__server", "__outbox"];
    expect_none(&rooms::hidden_modules_named(&files, &hidden));
    let server = project(&["server/src"]);
    expect_none(&rooms::hidden_modules_named(&server, &hidden[..2]));
    let outbox = project(&["outbox/src"]);
    expect_none(&rooms::hidden_modules_named(&outbox, &hidden[..3]));
}

#[test]
fn a_file_is_a_room_with_one_job() {
    expect_none(&manners::long_files(&project(&[
        "src",
        "conformance/src",
        "macros/src",
        "options/src",
        "outbox",
        "server",
        "dashboards/web",
        "tests",
        "examples",
        "benches",
        "fuzz",
    ])));
}

#[test]
fn nothing_is_left_lying() {
    let files = project(&[
        "src",
        "conformance/src",
        "macros/src",
        "options/src",
        "outbox",
        "server",
        "dashboards/web",
        "tests",
        "examples",
        "benches",
    ]);
    expect_none(&manners::unfinished(&files));
}

#[test]
fn no_rename_has_gone_through_a_sentence() {
    let files = project(&[
        "src",
        "conformance/src",
        "macros/src",
        "options/src",
        "outbox/src",
        "server/src",
        "tests",
    ]);
    expect_none(&manners::renamed_words(&files));
}

#[test]
fn types_and_variants_are_named_by_nouns() {
    let files = project(SOURCES);
    expect_none(&names::replaced(&files));
    expect_none(&names::partial_options(&files));
}

#[test]
fn fields_and_locals_are_named_by_what_they_are() {
    let files = project(SOURCES);
    expect_none(&names::replaced_words(&files));
}

#[test]
fn log_lines_are_contained() {
    let mut files = project(&["src"]);
    files.retain(|file| file.path != "src/outage.rs"); // it contains several at once
    expect_none(&manners::uncontained_lines(&files));
    let text = "fn f() {\n    tracing::warn!(\"so\");\n}\n";
    let file = File::new("src/store/x.rs", text);
    assert_eq!(manners::uncontained_lines(&[file]).len(), 1);
}

#[test]
fn every_test_example_and_benchmark_says_what_it_is_for() {
    let files = project(&["tests", "examples", "benches"]);
    expect_none(&manners::without_opening(&files));
}

#[test]
fn a_header_says_what_a_file_is() {
    expect_none(&manners::asking(&project(SOURCES)));
}

#[test]
fn every_test_belongs_to_a_program() {
    let manifest = File::read("Cargo.toml");
    expect_none(&manners::in_no_program(
        &project(&["tests"]),
        &manifest.text,
    ));
}

#[test]
fn every_example_and_benchmark_is_known_to_ci() {
    let listed = Command::new(root().join(".ci/run"))
        .arg("--list")
        .output()
        .expect(".ci/run can be run");
    assert!(listed.status.success(), ".ci/run --list failed: {listed:?}");
    let listed = String::from_utf8(listed.stdout).expect("the list is text");
    expect_none(&manners::not_run(
        &project(&["examples", "benches"]),
        &listed,
    ));
    let readme = File::read("README.md").text;
    for example in listed.lines().filter(|path| path.starts_with("examples/")) {
        assert!(
            readme.contains(&format!("]({example})")),
            "the README lacks {example}"
        );
    }
}

#[test]
fn scripts_say_what_bounds_them_and_order_no_texts() {
    let mut files = project(&["src"]);
    files.retain(|file| !file.path.ends_with("rights.lua")); // it asks, and touches no key
    expect_none(&scripts::without_bound(&files));
    expect_none(&scripts::counted(&files));
    expect_none(&scripts::counted(&project(&SOURCES[1..])));
    expect_none(&scripts::ordered_texts(&files));
}

#[test]
fn documents_name_files_that_exist() {
    let mut documents = project(&["src/docs"]);
    for name in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"] {
        documents.push(File::read(name));
    }
    let exists = |path: &str| root().join(path).exists();
    expect_none(&manners::dead_paths(&documents, exists));
}

#[test]
fn links_of_documents_lead_somewhere_in_the_repository() {
    let mut documents = documents_in(&["server", "outbox", "clients", "dashboards", "conformance"]);
    documents.extend(documents_in(&["src/docs", "benches"]));
    let others = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
    ];
    documents.extend(others.map(File::read));
    let read = |path: &str| std::fs::read(root().join(path)).ok();
    let text = |path: &str| read(path).map(|file| String::from_utf8_lossy(&file).into_owned());
    expect_none(&links::dead_links(&documents, text));
}

/// `DULY_COUNTS=overwrite` writes it anew.
#[test]
fn the_table_of_counts_is_that_of_the_bench() {
    let path = "src/docs/performance.md";
    let (guide, table) = (
        File::read(path).text,
        counted::table(&File::read("benches/counts.toml").text),
    );
    let begin = guide.find("| an event |").expect("the table");
    let end = begin + guide[begin..].find("\n\n").expect("its end");
    if std::env::var_os("DULY_COUNTS").is_some_and(|how| how == "overwrite") {
        let right = format!("{}{}{}", &guide[..begin], table.join("\n"), &guide[end..]);
        std::fs::write(root().join(path), right).expect(path);
        return;
    }
    let is_right = guide[begin..end].lines().eq(&table);
    assert!(is_right, "{path} is old: DULY_COUNTS=overwrite writes it");
}

/// What a run samples is run whole somewhere.
#[test]
fn each_variable_that_sets_how_much_is_tested_is_set_in_the_long_run() {
    let long = std::fs::read_to_string(root().join("tests/long.sh")).expect("tests/long.sh");
    let ends = [
        "_CASES", "_KILLS", "_ROUNDS", "_SEEDS", "_STOPS", "_ABORTS", "_EVENTS", "_FAULTS",
    ];
    let files = project(&["tests", "outbox/tests", "server/tests", "conformance/src"]);
    let mut found = BTreeSet::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        found.extend(file.text.split('"').filter(|text| {
            let is_name = |c: char| c == '_' || c.is_ascii_uppercase();
            let is_variable = text.starts_with("DULY_") && text.chars().all(is_name);
            is_variable && ends.iter().any(|end| text.ends_with(end))
        }));
    }
    assert!(found.len() > 15, "{found:?}");
    found.retain(|name| !long.contains(&format!("default {name} ")));
    let internal = ["DULY_BUG_SEEDS"]; // of the runner of planted bugs
    found.retain(|name| !internal.contains(name));
    assert!(found.is_empty(), "tests/long.sh sets none of {found:?}");
}

/// `DULY_LINKS=overwrite` writes both files anew.
#[test]
fn links_of_guides_lead_somewhere_in_the_documentation_of_rust() {
    let mut guides = documents_in(&["src/docs"]);
    guides.retain(|guide| !guide.path.ends_with("/SUMMARY.md"));
    let (definitions, wrong) = guides::rust_definitions(&guides);
    expect_none(&wrong);
    expect_none(&guides::broken_in_rust(&guides));

    let bytes = |name: &str| std::fs::read(root().join("src/docs").join(name)).expect(name);
    let pictures = guides.iter().map(|guide| guides::pictures(guide, bytes));
    for (path, right) in [
        ("src/docs/links.md", definitions),
        ("src/docs/pictures.md", pictures.collect()),
    ] {
        if std::env::var_os("DULY_LINKS").is_some_and(|how| how == "overwrite") {
            std::fs::write(root().join(path), &right).expect(path);
        }
        let is_right = File::read(path).text == right;
        assert!(is_right, "{path} is old: DULY_LINKS=overwrite writes it");
    }
}

#[test]
fn the_site_has_every_guide_and_what_its_pages_lead_to() {
    let summary = File::read("src/docs/SUMMARY.md");
    let mut guides = documents_in(&["src/docs"]);
    guides.retain(|guide| guide.path != summary.path);
    let missing = guides
        .iter()
        .map(|guide| guide.path.replacen("src/docs/", "](", 1) + ")");
    let missing: Vec<_> = missing
        .filter(|link| !summary.text.contains(link))
        .collect();
    expect_none(&missing);
    expect_none(&guides::no_pages(&summary, File::read));
}

/// Every document in some folders, but the definitions of links and pictures.
fn documents_in(folders: &[&str]) -> Vec<File> {
    let mut documents = project(folders);
    let is_one = |path: &str| {
        let made = ["/links.md", "/pictures.md"];
        path.ends_with(".md") && !made.iter().any(|name| path.ends_with(name))
    };
    documents.retain(|file| is_one(&file.path) && !file.path.contains("/node_modules/"));
    documents
}

#[test]
fn documents_say_a_thing_once() {
    let mut documents = project(&["src/docs"]);
    for name in ["README.md", "CONTRIBUTING.md"] {
        documents.push(File::read(name));
    }
    expect_none(&documents::said_twice(&documents));
}

#[test]
fn the_formats_that_storage_describes_are_those_of_the_code() {
    let storage = File::read("src/docs/storage.md");
    let tree = Tree::read(root()).expect("the sources can be read");
    let constant = |at: &str| {
        let value = documents::constant(&tree, at).expect(at);
        value.parse::<u32>().expect(at)
    };
    let embedded = constant("store::embedded::FORMAT");
    let redis = constant("store::redis::FORMAT");
    for (heading, column, last) in [
        ("## Versions", "version", embedded),
        ("### Versions", "format", redis),
    ] {
        let rows = documents::rows(&storage, heading, column);
        let newest = rows.last().copied().unwrap_or_default();
        assert_eq!(newest, last.to_string(), "{heading}");
    }
    let body = constant("codec::body::FORMAT");
    for sentence in [
        format!("Format {embedded}; `application_id` is"),
        format!("Format {body}, in the high four bits"),
    ] {
        assert!(storage.text.contains(&sentence), "{sentence}");
    }
    let (declares, _) = tree.find("store::embedded::FORMAT").expect("it is there");
    assert!(
        declares
            .text
            .contains(&format!("//! # Format {embedded}\n"))
    );
    let journal = constant("journal::sqlite::FORMAT");
    let sentence = format!("Format {journal}; `application_id` is");
    let said = File::read("src/docs/journal.md");
    assert!(said.text.contains(&sentence), "{sentence}");
}

#[test]
fn the_readme_counts_the_promises_as_they_are() {
    let numbered = |page: &str, mark: &str| {
        let page = File::read(page).text;
        let numbers = page.lines().filter_map(|line| {
            let number = line.strip_prefix(mark)?.split_once(". ")?.0;
            number.parse::<usize>().ok()
        });
        numbers.count()
    };
    let promises = numbered("src/docs/delivery.md", "");
    assert_eq!(promises, numbered("src/docs/mechanisms.md", "### "));
    let words = ["ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen"];
    let word = words[promises.checked_sub(10).expect("ten at least")];
    let sentence = format!("All {word} promises");
    assert!(
        File::read("README.md").text.contains(&sentence),
        "{sentence}"
    );
}

/// Fails with all complaints at once, one a line.
fn expect_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
