//! The quickstart as a person runs it: the shipped orders, bad ones, none, and no file at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::macros::built::{library, modified};

/// The example, as it was built along with this test.
fn quickstart() -> Command {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("tests lie in the profile's deps");
    let program = profile.join("examples").join("quickstart");
    if !is_up_to_date(&program) {
        build(profile);
    }
    Command::new(program)
}

/// Whether it is no older than the library and its own sources.
fn is_up_to_date(program: &Path) -> bool {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/quickstart");
    let sources = fs::read_dir(folder).expect("the example has a folder");
    let sources = sources.map(|entry| entry.expect("an entry of the folder").path());
    let newest = sources.chain([library()]).map(|path| modified(&path)).max();
    newest.is_some_and(|newest| modified(program) >= newest)
}

/// Builds it by the cargo that runs this test, into the same folder and in the same way; where only
/// this test was asked for, nobody has.
fn build(profile: &Path) {
    let target = profile.parent().expect("profiles lie in the target folder");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--example", "quickstart"]);
    cargo.args([
        "--manifest-path",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
    ]);
    cargo.arg("--target-dir").arg(target);
    if cfg!(feature = "testing") {
        cargo.arg("--all-features");
    }
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    // What cargo has told this test of its package would make build scripts run again, here and in
    // the next build outside of a test.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&*name);
        }
    }
    let built = cargo.output().expect("cargo can be run");
    assert!(built.status.success(), "{}", text(&built.stderr));
}

fn run(file: &Path) -> Output {
    let ran = quickstart().arg(file).output();
    ran.expect("the example can be run")
}

/// A file with these lines, and the directory that goes when it is dropped.
fn file_of(lines: &[&[u8]]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let file = directory.path().join("orders.jsonl");
    fs::write(&file, lines.join(&b'\n')).expect("a file can be written");
    (directory, file)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_shipped_orders_are_all_accounted_for_and_everything_that_can_happen_does() {
    let ran = quickstart().output().expect("the example can be run");
    let said = text(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", text(&ran.stderr));
    for part in [
        "not paid: closed  ",
        "after a failed attempt",
        "after one that timed out",
        "paid in time: cancelled",
        "cannot be closed: dead letter",
        "each of the 300 receipts is accounted for, none was early",
        "3 dead letters are kept",
    ] {
        assert!(said.contains(part), "nothing says {part:?} in\n{said}");
    }
    assert!(
        !said.contains("left out"),
        "the shipped file is clean:\n{said}"
    );
}

#[test]
fn bad_lines_are_named_and_left_out_and_the_others_are_handled() {
    let (_directory, file) = file_of(&[
        br#"{"order": 1, "customer": "Ada", "cents": 990, "delay_ms": 0}"#,
        br#"{"order": 2, "customer": "Ada", "cents": 990, "delay"#,
        br#"{"order": 3, "customer": "Ada", "cents": 990, "delay_ms": 10, "dealy_ms": 10}"#,
        br#"{"order": 4, "customer": "Ada", "cents": 990, "delay_ms": 3001}"#,
        br#"{"order": 5, "customer": "Ada", "cents": -990, "delay_ms": 10}"#,
        br#"{"order": 1, "customer": "Ada", "cents": 990, "delay_ms": 10}"#,
        b"{\"order\": 7, \"customer\": \"\xff\", \"cents\": 990, \"delay_ms\": 10}",
        b"",
        b"{\"order\": 9, \"customer\": \"Ada\", \"cents\": 990, \"delay_ms\": 10}\r",
        br#"{"order": 10, "customer": "Ada", "cents": 990, "delay_ms": 10, "paid_after_ms": 5000}"#,
    ]);
    let ran = run(&file);
    let said = text(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", text(&ran.stderr));
    for part in [
        "line 2: left out, EOF while parsing",
        "line 3: left out, unknown field `dealy_ms`",
        "line 4: left out, delay_ms is 3001, at most 3000",
        "line 5: left out, invalid value: integer `-990`",
        "line 6: left out, order 1 is on line 1 already",
        "line 7: left out, invalid unicode",
        "line 10: left out, paid_after_ms is 5000, at most 4000",
        "each of the 2 receipts is accounted for",
    ] {
        assert!(said.contains(part), "nothing says {part:?} in\n{said}");
    }
    assert_eq!(said.matches("left out").count(), 7, "{said}");
}

#[test]
fn a_file_that_is_not_there_is_an_error_that_names_it() {
    let (_directory, file) = file_of(&[]);
    let missing = file.with_file_name("orders-of-nobody.jsonl");
    let ran = run(&missing);
    let said = text(&ran.stderr);
    assert!(!ran.status.success(), "{said}");
    assert!(
        said.contains("orders-of-nobody.jsonl cannot be read"),
        "{said}"
    );
}

#[test]
fn a_folder_is_not_a_file_of_orders() {
    let (directory, _file) = file_of(&[]);
    let ran = run(directory.path());
    let said = text(&ran.stderr);
    assert!(!ran.status.success(), "{said}");
    assert!(said.contains("cannot be read"), "{said}");
}

#[test]
fn without_orders_there_is_nothing_to_do() {
    let (_directory, file) = file_of(&[]);
    let ran = run(&file);
    let said = text(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", text(&ran.stderr));
    assert!(said.contains("holds no orders: nothing to do"), "{said}");
}
