//! The packages of the clients in other languages: their address, their READMEs, and that what is
//! published already is not published again. What is in them `tests/clients.sh` installs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::VERSION;

const ADDRESS: &str = "https://example.com/owner/duly";
/// Stands for twine, npm and git: it notes how it is called, and what it has published by that; tags
/// of versions are in a file. The git of this machine responds where nothing is published.
const PROGRAM: &str = r#"#!/bin/sh
name=$(basename "$0")
noted="$(dirname "$0")/../published"
case "$name $1 $2" in
"npm view "*) grep -q "^npm publish" "$noted" && echo "$VERSION" || exit 1 ;;
"git ls-remote --tags") cat "$(dirname "$0")/../tags" ;;
"git ls-remote "*) grep -q "^git push" "$noted" || exit 2 ;;
"npm publish "* | "git push "* | twine*) echo "$name $*" >>"$noted" ;;
*) PATH=${PATH#*:} exec "$name" "$@" ;;
esac
"#;

/// What the packages are made of, in a repository of its own.
struct Copy(TempDir);

impl Copy {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let copies =
            "git ls-files -z Cargo.toml 'LICENSE-*' .ci clients server/README.md README.md |
            xargs -0 cp --parents -t \"$0\" && cd \"$0\" && git init --quiet && git add --all";
        let done = Command::new("sh")
            .args(["-c", copies])
            .arg(folder.path())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(done.expect("sh runs").success());
        Self(folder)
    }

    /// Runs a script of it; returns whether it succeeds, and its output.
    fn run(&self, script: &str, arguments: &[&str]) -> (bool, String) {
        let path = std::env::var("PATH").expect("there is one");
        let programs = self.0.path().join("programs");
        let ran = Command::new(self.0.path().join(script))
            .args(arguments)
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("CARGO_TARGET_DIR", self.0.path().join("target"))
            .env("VERSION", VERSION)
            .env_remove("DULY_REPOSITORY")
            .output()
            .expect("it runs");
        let output = [ran.stdout, ran.stderr].concat();
        (
            ran.status.success(),
            String::from_utf8_lossy(&output).into_owned(),
        )
    }

    fn succeeds(&self, script: &str, arguments: &[&str]) -> String {
        let (is_done, output) = self.run(script, arguments);
        assert!(is_done, "{script} {arguments:?}: {output}");
        output
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join(path)).expect(path)
    }
}

#[test]
fn one_address_is_that_of_the_crates_and_of_the_module_for_go() {
    let copy = Copy::new();
    copy.succeeds(".ci/clients", &["check"]);
    let (is_done, output) = copy.run(".ci/clients", &["check", "released"]);
    assert!(!is_done && output.contains("Go's module"), "{output}");
    let (is_done, output) = copy.run(".ci/clients", &["address", "example.com"]);
    assert!(!is_done, "{output}");

    let written = format!("{ADDRESS}.git/");
    copy.succeeds(".ci/clients", &["address", &written]);
    copy.succeeds(".ci/clients", &["check", "released"]);
    let cargo = copy.read("Cargo.toml");
    assert!(cargo.contains(&format!("\nrepository = \"{ADDRESS}\"\n")));
    let module = "example.com/owner/duly/clients/go";
    let first = copy.read("clients/go/go.mod");
    assert!(first.starts_with(&format!("module {module}\n")), "{first}");
    for (path, imports) in [
        ("clients/go/worker_test.go", "/dulytest"),
        ("clients/go/dulytest/server.go", ""),
        ("clients/throughput/go/main.go", ""),
    ] {
        let text = copy.read(path);
        assert!(
            text.contains(&format!("\n\t\"{module}{imports}\"\n")),
            "{path}"
        );
        assert!(!text.contains("\n\t\"duly"), "{path}");
    }
    // An address that changes, or only one of the two, is found.
    let moved = cargo.replace(ADDRESS, "https://example.com/other/duly");
    fs::write(copy.0.path().join("Cargo.toml"), moved).expect("it is written");
    let (is_done, output) = copy.run(".ci/clients", &["check", "released"]);
    assert!(!is_done && output.contains("Go's module"), "{output}");
    let again = "https://example.com/other/duly";
    copy.succeeds(".ci/clients", &["address", again]);
    copy.succeeds(".ci/clients", &["check", "released"]);
}

#[test]
fn a_client_of_another_version_or_license_fails_a_release() {
    for (path, from, to) in [
        ("clients/python/pyproject.toml", VERSION, "9.9.9"),
        ("clients/typescript/package.json", VERSION, "9.9.9"),
        ("clients/go/client.go", VERSION, "9.9.9"),
        ("clients/go/LICENSE-MIT", "MIT", "GPL"),
    ] {
        let copy = Copy::new();
        let text = copy.read(path).replacen(from, to, 1);
        fs::write(copy.0.path().join(path), text).expect("it is written");
        let (is_done, output) = copy.run(".ci/clients", &["check"]);
        assert!(!is_done && output.contains(path), "{path}: {output}");
    }
}

#[test]
fn links_of_a_readme_lead_somewhere_from_its_package() {
    let copy = Copy::new();
    let readmes = ["python", "typescript"].map(|name| format!("clients/{name}/README.md"));
    let package = copy.0.path().join("package.md");
    let links = ["links", package.to_str().expect("a path")];
    for readme in &readmes {
        // As it is in the repository it leads nowhere, which is found.
        fs::copy(copy.0.path().join(readme), &package).expect("it is written");
        let (is_done, output) = copy.run(".ci/site", &links);
        assert!(!is_done && output.contains("../../README.md"), "{output}");

        let alone = copy.succeeds(".ci/site", &["document", readme]);
        assert!(alone.contains("delayed job queue duly"), "{alone}");
        fs::write(&package, alone).expect("it is written");
        copy.succeeds(".ci/site", &links);
    }
    copy.succeeds(".ci/clients", &["address", ADDRESS]);
    for readme in &readmes {
        let alone = copy.succeeds(".ci/site", &["document", readme]);
        let led = format!("queue [duly]({ADDRESS}/blob/main/README.md)");
        assert!(alone.contains(&led), "{alone}");
        fs::write(&package, &alone).expect("it is written");
        copy.succeeds(".ci/site", &links);
        fs::write(
            &package,
            alone.replace("main/README.md", "main/LIESMICH.md"),
        )
        .expect("it is written");
        let (is_done, output) = copy.run(".ci/site", &links);
        assert!(!is_done && output.contains("LIESMICH.md"), "{output}");
    }
}

/// Returns a copy whose packages are made, with programs that stand for those of registries; and
/// the arguments that publish them.
fn to_publish(tags: &[&str]) -> (Copy, String) {
    let copy = Copy::new();
    let lines = tags.iter().map(|tag| format!("0a1b\trefs/tags/{tag}\n"));
    let lines: String = lines.collect();
    fs::write(copy.0.path().join("tags"), lines).expect("it is written");
    let programs = copy.0.path().join("programs");
    fs::create_dir(&programs).expect("a folder");
    fs::write(copy.0.path().join("published"), "").expect("it is written");
    for name in ["twine", "npm", "git"] {
        let path = programs.join(name);
        fs::write(&path, PROGRAM).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can run");
    }
    let packages = copy.0.path().join("packages");
    fs::create_dir(&packages).expect("a folder");
    for name in ["-py3-none-any.whl", ".tar.gz", ".tgz"] {
        fs::write(packages.join(format!("duly-{VERSION}{name}")), "").expect("it is written");
    }
    let packages = packages.to_str().expect("a path").to_owned();
    (copy, packages)
}

#[test]
fn clients_that_are_published_are_not_published_again() {
    let (copy, packages) = to_publish(&[]);
    let publish = ["publish", packages.as_str()];
    let (is_done, output) = copy.run(".ci/clients", &publish);
    assert!(
        !is_done,
        "Go's module has no path that it is fetched by: {output}"
    );
    assert_eq!(copy.read("published"), "");

    copy.succeeds(".ci/clients", &["address", ADDRESS]);
    copy.succeeds(".ci/clients", &publish);
    let once = copy.read("published");
    let programs: Vec<&str> = once.lines().filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(programs, ["twine", "npm", "git"], "{once}");
    assert!(
        once.contains("--skip-existing") && once.contains(".tgz"),
        "{once}"
    );
    let tag = format!("HEAD:refs/tags/clients/go/v{VERSION}");
    assert!(once.contains(&tag), "{once}");
    copy.succeeds(".ci/clients", &publish);
    let twice = copy.read("published");
    let more = twice.strip_prefix(&once).expect("the first time is noted");
    assert!(more.starts_with("twine ") && more.lines().count() == 1);
}

/// Whoever asks for no version gets the highest final one, whichever was released last.
#[test]
fn an_older_line_is_not_the_latest() {
    let numbers: Vec<u64> = VERSION.split('.').map_while(|it| it.parse().ok()).collect();
    let [major, minor, patch] = numbers.try_into().expect("three numbers");
    let its = format!("v{VERSION}");
    let line = format!("line-{major}.{minor}");
    let next = format!("v{major}.{}.0", minor + 1);
    let higher = format!("v{major}.{minor}.{}", patch + 1);
    let far = format!("v{major}.{}.0", minor + 10);
    let draft = format!("{next}-rc.1");
    for (tags, expected) in [
        (vec![], "latest"),
        (vec![&*its, "v0.0.1", "vendor", &draft], "latest"),
        (vec![&*next, &its], &line),
        (vec![&*higher], &line),
        (vec![&*far, &its, "v0.0.1", &draft], &line),
    ] {
        let (copy, packages) = to_publish(&tags);
        let channel = copy.succeeds(".ci/release", &["channel", &its]);
        assert_eq!(channel.trim(), expected, "{tags:?}");
        copy.succeeds(".ci/clients", &["address", ADDRESS]);
        copy.succeeds(".ci/clients", &["publish", &packages]);
        let named = format!("npm publish --tag {expected} ");
        let published = copy.read("published");
        assert!(published.contains(&named), "{tags:?}: {published}");
        let channel = copy.succeeds(".ci/release", &["channel", &draft]);
        assert!(channel.starts_with("line-"), "{tags:?}: {channel}");
    }
    // A repository that does not answer is not one without versions.
    let (copy, packages) = to_publish(&[]);
    fs::remove_file(copy.0.path().join("tags")).expect("it was there");
    copy.succeeds(".ci/clients", &["address", ADDRESS]);
    let (is_done, _) = copy.run(".ci/clients", &["publish", &packages]);
    assert_eq!((is_done, copy.read("published").as_str()), (false, ""));
    let workflow = include_str!("../../.github/workflows/release.yml");
    assert!(workflow.contains("channel=$(.ci/release channel \"$TAG\")\n"));
    assert!(!workflow.contains(":latest"));
}

/// What a release builds is also what it publishes.
#[test]
fn the_workflow_publishes_the_clients_that_it_has_tried() {
    let workflow = include_str!("../../.github/workflows/release.yml");
    let release = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/release"));
    let release = release.expect("it is there");
    assert!(workflow.contains(".ci/release clients target/clients"));
    assert!(workflow.contains("needs: [change, build, clients, image]"));
    assert!(workflow.contains(".ci/release publish \"$TAG\" files"));
    assert!(release.contains(".ci/clients publish \"$2\""));
}
