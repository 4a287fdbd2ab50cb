//! Programs that trace by OpenTelemetry: duly takes the versions that they have.

use super::{build, cargo, locked, program, resolved};
use crate::architecture::files::root;

/// What a program has of OpenTelemetry, and the layer that goes with it. A trace goes on through duly
/// only if both use the same versions, so duly takes those that a program has in its lock.
const TRACED: [(&str, &str); 6] = [
    ("0.28", "0.29"),
    ("0.29", "0.30"),
    ("0.30", "0.31"),
    ("0.31", "0.32"),
    ("0.32", "0.33"),
    ("0.33", "0.34"),
];

#[test]
fn opentelemetry_of_the_version_that_a_program_has() {
    for (api, layer) in TRACED {
        let folder = tempfile::tempdir().expect("a directory");
        let traced = format!(
            "opentelemetry = \"{api}\"\nopentelemetry_sdk = \"{api}\"\n\
             tracing-opentelemetry = \"{layer}\""
        );
        let manifest = folder.path().join("Cargo.toml");
        let program = program(traced.leak());
        program.write(folder.path());
        // It has its lock before it has duly.
        let with_duly = std::fs::read_to_string(&manifest).expect("the manifest");
        let lines = with_duly
            .lines()
            .filter(|line| !line.starts_with("duly = "));
        let before: Vec<_> = lines.collect();
        std::fs::write(&manifest, before.join("\n")).expect("a manifest");
        resolved(folder.path());
        let traces = "\", features = [\"opentelemetry\"] }";
        let with_duly = with_duly.replacen("\" }", traces, 1); // its first line
        std::fs::write(&manifest, with_duly).expect("a manifest");
        let output = cargo(folder.path(), &["update", "--workspace"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let lock = std::fs::read_to_string(folder.path().join("Cargo.lock")).expect("a lock");
        for (package, version) in [("opentelemetry", api), ("tracing-opentelemetry", layer)] {
            let is = locked(&lock, package);
            assert_eq!(is.len(), 1, "{package} beside {version}: {is:?}");
            assert!(
                is[0].starts_with(&format!("{version}.")),
                "{package} is {is:?}"
            );
        }
        if std::env::var("DULY_NEIGHBOURS").as_deref() == Ok("build") {
            build(folder.path());
        }
    }
}

/// The manifest allows no version that is not tried here, and none of these is left out.
#[test]
fn the_versions_of_opentelemetry_are_those_that_are_tried() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let ends = |of: fn(&(&'static str, &'static str)) -> &'static str| {
        let versions = TRACED.iter().map(of);
        let numbers = versions.map(|it| it[2..].parse::<u32>().expect("a number"));
        let numbers: Vec<u32> = numbers.collect();
        (numbers[0], numbers[numbers.len() - 1] + 1)
    };
    for (package, (first, end)) in [
        ("opentelemetry", ends(|it| it.0)),
        ("tracing-opentelemetry", ends(|it| it.1)),
    ] {
        let range = format!("\n{package} = {{ version = \">=0.{first}, <0.{end}\"");
        assert!(manifest.contains(&range), "{range}");
    }
}
