//! The packages that others need: each is used, and none is compiled twice.

use std::collections::BTreeSet;
use std::process::Command;

use crate::architecture::expect_none;
use crate::architecture::files::{File, project, root, words};

/// The packages that a command of cargo compiles, each with its features.
fn packages(arguments: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--locked", "--offline", "--prefix", "none"];
    let output = Command::new(env!("CARGO"))
        .args(tree)
        .args(["--format", "{p} {f}"])
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "cargo tree {arguments:?}: {errors}"
    );
    let text = String::from_utf8(output.stdout).expect("names are text");
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    lines
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The features of `duly`, by its manifest.
fn features(manifest: &str) -> Vec<&str> {
    let table = manifest.split("\n[features]\n").nth(1).unwrap_or_default();
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split_once(" = ").map(|(name, _)| name));
    names
        .filter(|name| !name.starts_with('#') && *name != "default")
        .collect()
}

/// A package with other features is compiled once more, and so is all that depends on it.
#[test]
fn what_a_feature_alone_needs_is_compiled_already() {
    let all = packages(&[
        "--workspace",
        "--all-features",
        "--edges",
        "normal,build,dev",
    ]);
    let manifest = File::read("Cargo.toml").text;
    let features = features(&manifest);
    assert!(features.len() > 5, "{features:?}");
    let mut others = BTreeSet::new();
    for feature in features {
        let feature = format!("duly/{feature}");
        let of_duly = ["-p", "duly", "-p", "duly-features", "--no-default-features"];
        let one = ["--edges", "normal,build", "--features", &feature];
        others.extend(packages(&[&of_duly[..], &one].concat()));
    }
    assert!(others.len() > 100, "{others:?}");
    let others = others
        .difference(&all)
        .filter(|it| !it.starts_with("duly v"));
    let wrong =
        others.map(|it| format!("{it}: not so in a build of all; see tests/features/Cargo.toml"));
    expect_none(&wrong.collect::<Vec<_>>());
}

/// The folders of the packages that have code, with a slash.
const FOLDERS: &[&str] = &[
    "",
    "conformance/",
    "dashboards/web/",
    "macros/",
    "options/",
    "outbox/",
    "server/",
    "tests/power/",
];

/// Named for its features alone, which others use.
const FOR_FEATURES: &[&str] = &["Cargo.toml: aes", "server/Cargo.toml: sqlx"];

/// The cipher asks its key schedule for nothing of the kind.
#[test]
fn the_key_schedule_of_a_cipher_is_overwritten() {
    let of_duly = ["-p", "duly", "--no-default-features", "--edges", "normal"];
    let all = packages(&of_duly);
    for name in ["aes v", "aes-gcm-siv v"] {
        let features = all.iter().find(|it| it.starts_with(name));
        let is_asked_for = features.is_some_and(|it| it.contains("zeroize"));
        assert!(is_asked_for, "{name}: {features:?}");
    }
}

/// Packages that a manifest asks for, and that no code beside it names.
fn unused(manifest: &File, code: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut is_list = false;
    for line in manifest.text.lines() {
        if let Some(table) = line.strip_prefix('[') {
            is_list = table.ends_with("dependencies]");
        } else if let Some((name, _)) = line.split_once(" = ")
            && is_list
            && !line.starts_with('#')
        {
            let in_code = name.replace('-', "_");
            let names = |file: &File| words(&file.text, &in_code).next().is_some();
            if !code.iter().filter(|file| file.is_rust()).any(names) {
                wrong.push(format!("{}: {name}", manifest.path));
            }
        }
    }
    wrong
}

#[test]
fn no_package_is_asked_for_in_vain() {
    let mut wrong = Vec::new();
    for package in FOLDERS {
        let folders = ["src", "tests", "examples", "benches"].map(|it| format!("{package}{it}"));
        let mut code = project(&folders.each_ref().map(String::as_str));
        let build = format!("{package}build.rs");
        if root().join(&build).exists() {
            code.push(File::read(&build));
        }
        wrong.extend(unused(&File::read(&format!("{package}Cargo.toml")), &code));
    }
    wrong.retain(|it| !FOR_FEATURES.contains(&it.as_str()));
    expect_none(&wrong);
}

#[test]
fn a_package_that_nobody_uses_is_found() {
    let manifest = "[package]\nname = \"a\"\n[dependencies]\nb-c = \"1\"\nd = { version = \"1\" }\n\n\
                    [target.'cfg(unix)'.dev-dependencies]\n# e = \"2\"\nf = \"1\"\n[features]\ng = []\n";
    let code = [File::new("src/a.rs", "use b_c::D;\nfn f2() {}\n")];
    let found = unused(&File::new("Cargo.toml", manifest), &code);
    assert_eq!(found, ["Cargo.toml: d", "Cargo.toml: f"]);
}
