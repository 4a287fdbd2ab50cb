//! Which compiler the workflows take: the declared `rust-version` for what it can compile, and for
//! the rest the one with which the counts were made.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

use crate::architecture::files::{File, root};

/// A package, as `cargo tree` and the metadata name it.
type Package = (String, String);

/// The members of the workspace, their features, and what each package asks of the compiler.
struct Workspace {
    members: BTreeMap<String, BTreeSet<String>>,
    needs: BTreeMap<Package, Vec<u64>>,
    declared: Vec<u64>,
}

/// Returns the text of a file of the project.
fn read(path: &str) -> String {
    File::read(path).text
}

fn cargo(arguments: &[&str]) -> String {
    let cargo = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .output();
    let output = cargo.expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}\n{errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// `1.91` as numbers; what is not said is zero.
fn version(text: &str) -> Vec<u64> {
    let numbers = text
        .split('.')
        .map(|number| number.parse().expect("a number"));
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.resize(3, 0);
    numbers
}

impl Workspace {
    fn read() -> Self {
        let compiler = Command::new("rustc")
            .arg("-vV")
            .output()
            .expect("rustc runs");
        let compiler = String::from_utf8(compiler.stdout).expect("text");
        let host = compiler
            .lines()
            .find_map(|line| line.strip_prefix("host: "));
        let metadata = cargo(&[
            "metadata",
            "--locked",
            "--all-features",
            "--format-version=1",
            "--filter-platform",
            host.expect("a host"),
        ]);
        let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let members = metadata["workspace_members"].as_array().expect("members");
        let mut workspace = Self {
            members: BTreeMap::new(),
            needs: BTreeMap::new(),
            declared: Vec::new(),
        };
        for package in metadata["packages"].as_array().expect("packages") {
            let name = text(&package["name"]);
            let needs = package["rust_version"].as_str().map(version);
            if members.contains(&package["id"]) {
                let features = package["features"].as_object().expect("features");
                let features = features.keys().filter(|name| *name != "default").cloned();
                workspace.members.insert(name.clone(), features.collect());
                if name == "duly" {
                    workspace.declared = needs.clone().expect("duly declares one");
                }
            }
            if let Some(needs) = needs {
                let package = (name, text(&package["version"]));
                workspace.needs.insert(package, needs);
            }
        }
        workspace
    }

    /// Returns what `cargo check` compiles with these arguments, each package with its features.
    fn compiled(arguments: &[&str]) -> BTreeMap<Package, BTreeSet<String>> {
        let tree = ["tree", "--locked", "--edges", "no-dev", "--prefix", "none"];
        let tree = cargo(&[tree.as_slice(), &["--format", "{p}|{f}"], arguments].concat());
        let mut compiled = BTreeMap::<Package, BTreeSet<String>>::new();
        for line in tree.lines().filter(|line| !line.is_empty()) {
            let (package, features) = line.split_once('|').expect("a package and features");
            let mut words = package.split(' ');
            let mut next = || words.next().expect("a name and a version").to_owned();
            let package = (next(), next().trim_start_matches('v').to_owned());
            let features = features.trim_end_matches(" (*)").split(',');
            let features = features.filter(|name| !name.is_empty()).map(str::to_owned);
            compiled.entry(package).or_default().extend(features);
        }
        compiled
    }

    /// Returns the packages among these that the declared version does not compile.
    fn too_new<'a>(&self, compiled: impl Iterator<Item = &'a Package>) -> Vec<&'a Package> {
        let is_too_new = |package: &&Package| {
            let needs = self.needs.get(*package);
            needs.is_some_and(|needs| *needs > self.declared)
        };
        compiled.filter(is_too_new).collect()
    }
}

/// Returns the steps of a job of a workflow.
fn steps(workflow: &str, job: &str) -> Vec<Yaml> {
    let read = YamlLoader::load_from_str(workflow).expect("YAML");
    let steps = read[0]["jobs"][job]["steps"].as_vec();
    steps.expect("the job has steps").clone()
}

/// Cargo refuses a package whose `rust-version` is above that of the compiler. The workflow leaves
/// out what needs a newer one, and that alone.
#[test]
fn the_declared_version_compiles_what_the_workflow_compiles_with_it_and_nothing_else_is_left_out() {
    let workspace = Workspace::read();
    let steps = steps(&read(".github/workflows/ci.yml"), "oldest");
    let commands = steps.iter().filter_map(|step| step["run"].as_str());
    let checks: Vec<_> = commands
        .filter_map(|command| command.strip_prefix("cargo check --locked "))
        .collect();
    assert!(!checks.is_empty(), "the job compiles nothing");
    let mut checked = BTreeMap::<Package, BTreeSet<String>>::new();
    for check in checks {
        let arguments: Vec<_> = check.split_whitespace().collect();
        let compiled = Workspace::compiled(&arguments);
        let too_new = workspace.too_new(compiled.keys());
        assert!(too_new.is_empty(), "cargo check {check}: {too_new:?}");
        for (package, features) in compiled {
            checked.entry(package).or_default().extend(features);
        }
    }
    for (member, features) in &workspace.members {
        let checked = checked.iter().find(|((name, _), _)| name == member);
        let (_, checked) = checked.unwrap_or_else(|| panic!("{member} is not compiled"));
        for feature in features.difference(checked) {
            let compiled = Workspace::compiled(&["-p", member, "--features", feature]);
            let too_new = workspace.too_new(compiled.keys());
            let needs = too_new.iter().map(|package| &workspace.needs[*package]);
            let needs = needs.max();
            let needs = needs.unwrap_or_else(|| panic!("{member} is not compiled with {feature}"));
            says_what_a_feature_needs(member, feature, needs);
        }
    }
}

/// The manifest has one version for all features, so one that needs more says so: where it is declared,
/// and in what a user reads first.
fn says_what_a_feature_needs(member: &str, feature: &str, needs: &[u64]) {
    let needs = format!("Rust {}.{}", needs[0], needs[1]);
    let folder = member.strip_prefix("duly-").unwrap_or(".");
    let manifest = read(&format!("{folder}/Cargo.toml"));
    let declared = format!("\n{feature} = [");
    let (before, _) = manifest.split_once(&declared).expect("the feature");
    let comment = before.lines().next_back().unwrap_or_default();
    assert!(comment.contains(&needs), "{member}, {feature}: {comment}");
    for document in ["README.md", &format!("{folder}/README.md"), "CHANGELOG.md"] {
        assert!(
            read(document).contains(&needs),
            "{document}: {feature} needs {needs}"
        );
    }
}

/// What warns, what `tests/ui` expects and what is counted depends on the compiler, so that a new
/// one is a change of its own; what is released was tested with the same one.
#[test]
fn the_workflows_and_the_image_have_the_compiler_with_which_the_counts_were_made() {
    let counts = read("benches/counts.toml");
    let counted = counts
        .lines()
        .find_map(|line| line.strip_prefix("rustc = \"rustc "));
    let counted = counted.and_then(|line| line.split(' ').next());
    let counted = counted.expect("the counts name a compiler");
    let action = "uses: dtolnay/rust-toolchain@";
    for (name, takes_another) in [("ci", 1), ("release", 0), ("site", 0)] {
        let workflow = read(&format!(".github/workflows/{name}.yml"));
        let taken = workflow.lines().filter_map(|line| line.split_once(action));
        let others = taken.filter(|(_, version)| *version != counted);
        let others: Vec<_> = others.map(|(_, version)| version).collect();
        // The job `oldest`, which names a version beside it.
        assert_eq!(others, vec!["master"; takes_another], "{name}");
    }
    let image = read("server/deploy/Containerfile");
    let (_, image) = image.split_once("/rust:").expect("it compiles in an image");
    let (image, _) = image
        .split_once('-')
        .expect("a version of Rust, then one of Debian");
    assert!(counted.starts_with(&format!("{image}.")), "{image}");
}

#[test]
fn the_documents_name_the_declared_version() {
    let declared = env!("CARGO_PKG_RUST_VERSION");
    for document in [
        "README.md",
        "outbox/README.md",
        "server/README.md",
        "CHANGELOG.md",
    ] {
        let says = read(document).contains(&format!("Rust {declared} or later"));
        assert!(says, "{document}");
    }
}

/// A program that is downloaded has no features to choose.
#[test]
fn what_is_released_relays_every_database() {
    for path in [".ci/release", "server/deploy/Containerfile"] {
        let builds = read(path);
        let mut lines = builds.lines().filter(|line| line.contains("cargo build "));
        assert!(lines.all(|line| line.ends_with(" -p duly-server --features mysql")));
        assert!(builds.contains("cargo build "));
    }
}

/// Where the root is a package, as here, cargo-deny takes that one alone unless it is told.
#[test]
fn the_dependencies_of_every_member_are_checked() {
    let steps = steps(&read(".github/workflows/ci.yml"), "dependencies");
    let arguments = steps
        .iter()
        .find_map(|step| step["with"]["arguments"].as_str());
    assert_eq!(arguments, Some("--workspace"));
    let release = read(".ci/release");
    let mut calls = release.lines().filter(|line| line.contains("cargo deny "));
    assert!(calls.any(|line| line.contains("cargo deny --workspace ")));
    assert!(calls.all(|line| line.contains("cargo deny --workspace ")));
}

/// The gate, the script and the guide for contributors name the same options of a container.
#[test]
fn a_container_of_the_tests_may_mount() {
    let workflow = YamlLoader::load_from_str(&read(".github/workflows/ci.yml")).expect("YAML");
    let options = workflow[0]["jobs"]["gate"]["container"]["options"].as_str();
    let options = options.expect("the gate has options");
    for option in ["/dev/fuse", "SYS_ADMIN", "apparmor=unconfined"] {
        assert!(options.contains(option), "{option}");
    }
    for told in ["tests/run.sh", "CONTRIBUTING.md"] {
        assert!(read(told).contains(&format!("`{options}`")), "{told}");
    }
}

/// Returns the jobs that a job waits for, and those for which they wait.
fn awaited<'a>(jobs: &'a Yaml, job: &'a str) -> BTreeSet<&'a str> {
    let needs = &jobs[job]["needs"];
    let one = needs.as_str().into_iter();
    let needs = one.chain(
        needs
            .as_vec()
            .into_iter()
            .flatten()
            .filter_map(Yaml::as_str),
    );
    let mut all = BTreeSet::new();
    for need in needs {
        all.insert(need);
        all.extend(awaited(jobs, need));
    }
    all
}

/// Whatever writes outside of the machine it runs on: it may write somewhere, or has a secret.
#[test]
fn nothing_is_published_of_a_commit_that_does_not_pass_the_checks_of_a_change() {
    let release = read(".github/workflows/release.yml");
    let release = YamlLoader::load_from_str(&release).expect("YAML");
    let jobs = &release[0]["jobs"];
    let named = jobs.as_hash().expect("jobs").iter();
    let named = named.filter_map(|(name, job)| Some((name.as_str()?, job)));
    let called: Vec<&str> = named
        .clone()
        .filter(|(_, job)| job["uses"].as_str() == Some("./.github/workflows/ci.yml"))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(called.len(), 1, "the checks are called once");
    let mut publishing = 0;
    for (name, job) in named {
        for skipped in ["if", "continue-on-error"] {
            assert!(job[skipped].is_badvalue(), "{name} has `{skipped}`");
        }
        let permissions = job["permissions"].as_hash().into_iter().flatten();
        let mut permissions = permissions.filter_map(|(_, may)| may.as_str());
        if permissions.any(|may| may == "write") || format!("{job:?}").contains("secrets.") {
            publishing += 1;
            let awaited = awaited(jobs, name);
            assert!(awaited.contains(called[0]), "{name} waits for {awaited:?}");
        }
    }
    assert!(publishing >= 2, "an image, and everything else");
    let ci = YamlLoader::load_from_str(&read(".github/workflows/ci.yml")).expect("YAML");
    let begins = ci[0]["on"].as_hash().expect("it begins by something");
    assert!(begins.contains_key(&Yaml::String("workflow_call".to_owned())));
    for (name, job) in ci[0]["jobs"].as_hash().expect("jobs") {
        for skipped in ["if", "continue-on-error"] {
            assert!(job[skipped].is_badvalue(), "{name:?} has `{skipped}`");
        }
    }
}
