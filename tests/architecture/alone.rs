//! The packages that a check of `duly` with one feature takes: those that other steps have compiled.

use std::collections::BTreeSet;
use std::process::Command;

use crate::architecture::expect_none;
use crate::architecture::files::{File, root};

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
