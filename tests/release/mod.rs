//! Which crates `.ci/release` publishes: those that the registry lacks, also where it refuses some;
//! and which it compares with their last release: those that have one.

mod clients;
mod toolchains;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::architecture::files::root;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const CRATES: [&str; 7] = [
    "duly-options",
    "duly-macros",
    "duly",
    "duly-conformance",
    "duly-outbox",
    "duly-dashboard",
    "duly-server",
];
/// Stands for cargo: a line of the file `refusals` is what it says instead of publishing a crate.
/// What is published is in the folder of the registry, which may also be of one that it refuses.
const CARGO: &str = r#"#!/bin/sh
cd "$(dirname "$0")/.."
for crate; do :; done
echo "cargo $*" >>calls
[ "$1" = publish ] || crate=$1
refusal=$(sed -n "s/^$crate //p" refusals | head -n 1)
if [ -n "$refusal" ]; then
    sed -i "0,/^$crate /{/^$crate /d}" refusals
    [ "$refusal" != "no answer" ] || echo "$VERSION" >>"registry/$crate"
    echo "error: $refusal" >&2
    exit 101
fi
[ "$1" != publish ] || echo "$VERSION" >>"registry/$crate"
"#;
/// What the registry has of a crate of which it says nothing.
const OUT_OF_ORDER: &str = "out of order\n";
/// After a version that was taken back.
const YANKED: &str = " yanked";
const SLEEP: &str = "#!/bin/sh\necho \"sleep $*\" >>\"$(dirname \"$0\")/../calls\"\n";
const TOO_MANY: &str = "failed to publish to registry: the remote server responded with an error \
    (status 429 Too Many Requests): You have published too many new crates in a short period of time";

/// A registry, and programs that stand for others.
struct Release {
    folder: TempDir,
    index: String,
}

impl Release {
    fn new(refusals: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["registry", "programs"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        for (name, text) in [("cargo", CARGO), ("sleep", SLEEP)] {
            let path = folder.path().join("programs").join(name);
            fs::write(&path, text).expect("it is written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can run");
        }
        let refusals = refusals.iter().map(|(name, why)| format!("{name} {why}\n"));
        let refusals: String = refusals.collect();
        fs::write(folder.path().join("refusals"), refusals).expect("it is written");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let index = format!("http://{}", listener.local_addr().expect("its address"));
        let registry = folder.path().join("registry");
        std::thread::spawn(move || {
            listener
                .incoming()
                .flatten()
                .for_each(|asked| respond(&registry, &asked));
        });
        Self { folder, index }
    }

    fn has(&self, name: &str, version: &str) {
        let path = self.folder.path().join("registry").join(name);
        fs::write(path, format!("{version}\n")).expect("it is written");
    }

    /// Uploads; returns whether that succeeds, and which crates it had published, or when it waited.
    fn run(&self) -> (bool, Vec<String>) {
        let (is_done, calls, _) = self.run_command("upload");
        (is_done, calls)
    }

    /// Runs a command of it; returns whether it succeeds, its calls, and its output.
    fn run_command(&self, command: &str) -> (bool, Vec<String>, String) {
        let programs = self.folder.path().join("programs");
        let path = std::env::var("PATH").expect("there is one");
        let ran = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/release"))
            .arg(command)
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("DULY_INDEX", &self.index)
            .env("VERSION", VERSION)
            .output();
        let calls = self.folder.path().join("calls");
        let said = fs::read_to_string(&calls).unwrap_or_default();
        fs::remove_file(calls).ok();
        let short = |call: &str| call.replace("cargo publish --locked -p ", "");
        let ran = ran.expect("it runs");
        let output = [ran.stdout, ran.stderr].concat();
        let output = String::from_utf8_lossy(&output).into_owned();
        let calls = said.lines().map(short).collect();
        (ran.status.success(), calls, output)
    }
}

/// Responds as the index: the versions of a crate, each on a line, or 404.
fn respond(registry: &Path, mut asked: &TcpStream) {
    let mut lines = BufReader::new(asked).lines().map_while(Result::ok);
    let path = lines.next().unwrap_or_default();
    lines.find(String::is_empty);
    let path = path.split(' ').nth(1).unwrap_or_default().to_owned();
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_place = path == format!("/{}/{}/{name}", &name[..2], &name[2..4]);
    assert!(is_place, "{path} is the place of no crate");
    let versions = fs::read_to_string(registry.join(name));
    let status = match versions.as_deref() {
        Ok(OUT_OF_ORDER) => "500 Internal Server Error",
        Ok(_) => "200 OK",
        Err(_) => "404 Not Found",
    };
    let versions = versions.unwrap_or_default();
    let versions = versions.lines();
    let versions: String = versions
        .map(|version| {
            let number = version.trim_end_matches(YANKED);
            let yanked = number != version;
            format!("{{\"name\":\"{name}\",\"vers\":\"{number}\",\"yanked\":{yanked}}}\n")
        })
        .collect();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n",
        versions.len()
    );
    let text = format!("{head}Connection: close\r\n\r\n{versions}");
    asked.write_all(text.as_bytes()).expect("it is sent");
}

#[test]
fn a_release_that_the_registry_refuses_in_part_waits_and_ends_and_a_repeat_publishes_nothing() {
    let refused = [CRATES[5], CRATES[6], CRATES[6]].map(|name| (name, TOO_MANY));
    let release = Release::new(&refused);
    let (is_done, calls) = release.run();
    let waits = "sleep 600";
    let expected = [
        &CRATES[..6],
        &[
            waits, CRATES[5], CRATES[6], waits, CRATES[6], waits, CRATES[6],
        ],
    ];
    assert_eq!((is_done, calls), (true, owned(&expected.concat())));
    assert_eq!(release.run(), (true, Vec::new()));
}

#[test]
fn only_what_the_registry_lacks_is_published() {
    let release = Release::new(&[]);
    for name in [CRATES[0], CRATES[2], CRATES[4]] {
        release.has(name, VERSION);
    }
    release.has(CRATES[3], &format!("9{VERSION}"));
    release.has(CRATES[5], &format!("{VERSION}-rc.1"));
    let lacking = [CRATES[1], CRATES[3], CRATES[5], CRATES[6]];
    assert_eq!(release.run(), (true, owned(&lacking)));
}

#[test]
fn what_fails_ends_the_release_unless_it_is_published_all_the_same() {
    let release = Release::new(&[(CRATES[1], "no answer"), (CRATES[3], "it does not compile")]);
    assert_eq!(release.run(), (false, owned(&CRATES[..4])));
    assert_eq!(release.run(), (true, owned(&CRATES[3..])));
    // A registry that says nothing is not one that lacks everything.
    let release = Release::new(&[]);
    release.has(CRATES[2], OUT_OF_ORDER.trim());
    assert_eq!(release.run(), (false, owned(&CRATES[..2])));
}

#[test]
fn a_registry_that_refuses_for_ever_ends_the_release() {
    let release = Release::new(&[(CRATES[0], TOO_MANY); 20]);
    let (is_done, calls) = release.run();
    assert!(!is_done);
    let mut counts = BTreeMap::new();
    calls
        .iter()
        .for_each(|call| *counts.entry(call.as_str()).or_insert(0) += 1);
    assert_eq!(counts, BTreeMap::from([(CRATES[0], 13), ("sleep 600", 12)]));
}

#[test]
fn a_release_is_compared_with_the_last_one_once_there_is_one() {
    let release = Release::new(&[]);
    let (is_done, calls, output) = release.run_command("semver");
    assert_eq!((is_done, calls), (true, Vec::new()), "{output}");
    assert!(output.contains("no version is released"), "{output}");

    // What was taken back is nothing to compare with, and neither are macros.
    release.has(CRATES[0], &format!("0.0.1{YANKED}"));
    release.has(CRATES[1], "0.0.1");
    let (is_done, calls, output) = release.run_command("semver");
    assert_eq!((is_done, calls), (true, Vec::new()), "{output}");

    release.has(CRATES[2], &format!("0.0.1\n0.0.2{YANKED}"));
    release.has(CRATES[4], VERSION);
    let (is_done, calls, output) = release.run_command("semver");
    let compares = "cargo semver-checks -pduly -pduly-outbox";
    assert_eq!(compared(&calls), [compares], "{output}");
    assert!(is_done, "{output}");
}

#[test]
fn a_version_that_is_too_low_for_what_has_changed_ends_the_release() {
    let release = Release::new(&[("semver-checks", "a function is missing")]);
    release.has(CRATES[2], "0.0.1");
    let (is_done, calls, output) = release.run_command("semver");
    assert!(!is_done, "{output}");
    assert_eq!(compared(&calls), ["cargo semver-checks -pduly"]);
    assert!(output.contains("needs a higher version"), "{output}");
    // A registry that says nothing is not one without a release.
    let release = Release::new(&[]);
    release.has(CRATES[2], OUT_OF_ORDER.trim());
    let (is_done, calls, output) = release.run_command("semver");
    assert_eq!((is_done, calls), (false, Vec::new()), "{output}");
}

/// The calls of cargo that compare; another installs the program, where it is missing.
fn compared(calls: &[String]) -> Vec<&str> {
    let is_one = |call: &&str| call.starts_with("cargo semver-checks");
    calls.iter().map(String::as_str).filter(is_one).collect()
}

/// What is there already fails no repeat.
#[test]
fn the_workflow_leaves_what_it_has_published_as_it_is() {
    let workflow = include_str!("../../.github/workflows/release.yml");
    let mut creates = workflow
        .lines()
        .filter(|it| it.contains("gh release create"));
    assert!(creates.all(|line| line.contains("gh release view \"$TAG\" || gh release create")));
    assert!(workflow.contains(".ci/release publish"));
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A repository may have capitals in its name, an image may not.
#[test]
fn an_image_has_no_capitals() {
    let workflow = include_str!("../../.github/workflows/release.yml");
    let images = workflow.split("ghcr.io/").skip(1);
    assert!(images.clone().count() > 0);
    for image in images {
        assert!(image.starts_with("${GITHUB_REPOSITORY,,}"), "{image}");
    }
}

/// cargo-deb makes the scripts that do so only where it has a folder for them, and finds the unit
/// there by the name of the package.
#[test]
fn an_upgrade_of_the_package_of_debian_restarts_the_unit() {
    let manifest = include_str!("../../server/Cargo.toml");
    let manifest: toml::Table = manifest.parse().expect("a manifest");
    let deb = &manifest["package"]["metadata"]["deb"];
    let text = |name: &str| deb[name].as_str().expect("text");
    let folder = root().join("server").join(text("maintainer-scripts"));
    assert!(folder.join(format!("{}.service", text("name"))).is_file());
    let units = deb["systemd-units"]
        .as_table()
        .expect("options of the unit");
    assert_eq!(
        units.get("restart-after-upgrade"),
        None,
        "it is the default"
    );
}
