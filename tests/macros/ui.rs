//! Programs of `tests/ui`: each of `pass` compiles and runs, each of `fail` is refused with the
//! message beside it.
//!
//! Each case is one call of `rustc` against the library that this test was built with, so that
//! nothing is built twice. `DULY_UI=overwrite` writes the messages anew.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;
use std::{env, fs};

use crate::macros::built::library;

#[test]
fn what_is_right_compiles_and_runs() {
    for_each_case("pass", |case, library, scratch| {
        let program = scratch.join(case.file_stem().expect("a case has a name"));
        let compiled = rustc(case, library)
            .arg("-o")
            .arg(&program)
            .output()
            .expect("rustc runs");
        if !compiled.status.success() {
            return Some(format!("does not compile:\n{}", text_of(&compiled)));
        }
        let ran = Command::new(&program).output().expect("what was built");
        (!ran.status.success()).then(|| format!("ends with {}:\n{}", ran.status, text_of(&ran)))
    });
}

#[test]
fn what_is_wrong_is_refused_with_its_message() {
    for_each_case("fail", |case, library, scratch| {
        let compiled = rustc(case, library)
            .args(["--emit=metadata", "--out-dir"])
            .arg(scratch)
            .output()
            .expect("rustc runs");
        if compiled.status.success() {
            return Some("compiles".to_owned());
        }
        let said = normalised(&text_of(&compiled));
        let beside = case.with_extension("stderr");
        if env::var_os("DULY_UI").is_some_and(|how| how == "overwrite") {
            fs::write(&beside, &said).expect("the message can be written");
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        (said != expected).then(|| {
            format!("is refused with another message; expected\n{expected}\nand it was\n{said}")
        })
    });
}

/// Checks each case of a folder, as many at a time as there are processors, and fails with all
/// complaints at once.
fn for_each_case(folder: &str, check: impl Fn(&Path, &Path, &Path) -> Option<String> + Sync) {
    let folder = Path::new("tests/ui").join(folder);
    let mut cases: Vec<_> = fs::read_dir(&folder)
        .expect("the tests run in the folder of the package")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .collect();
    assert!(!cases.is_empty(), "{} has no cases", folder.display());
    cases.sort();
    let library = library();
    let scratch = tempfile::tempdir().expect("a folder to build in");
    let (cases, complaints) = (Mutex::new(cases.into_iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let next = || cases.lock().expect("nobody panics with it").next();
                while let Some(case) = next() {
                    if let Some(complaint) = check(&case, &library, scratch.path()) {
                        let complaint = format!("{} {complaint}", case.display());
                        complaints
                            .lock()
                            .expect("nobody panics with it")
                            .push(complaint);
                    }
                }
            });
        }
    });
    let complaints = complaints.into_inner().expect("nobody panics with it");
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n\n"));
}

fn rustc(case: &Path, library: &Path) -> Command {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut rustc = Command::new(compiler);
    rustc
        .args(["--edition=2024", "--color=never", "--diagnostic-width=140"])
        .args(["--crate-type=bin", "-Adead_code", "-Cdebuginfo=0"])
        .arg("-L")
        .arg(format!(
            "dependency={}",
            library.with_file_name("").display()
        ))
        .arg("--extern")
        .arg(format!("duly={}", library.display()))
        .arg(case);
    rustc
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stderr, &*output.stdout].concat()).into_owned()
}

/// A message without what changes though it stays the same: numbers of lines at the margin and the
/// places in files that are not the case's own, and without the counts at its end.
fn normalised(said: &str) -> String {
    let mut lines = Vec::new();
    for line in said.lines() {
        let inner = line.trim_start();
        let digits = inner.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_place = ["--> ", "::: "]
            .iter()
            .any(|arrow| inner.starts_with(arrow));
        lines.push(if inner.starts_with("error: aborting due to ") {
            break;
        } else if is_place && inner.contains("tests/ui/") {
            format!("  {inner}")
        } else if is_place {
            let file = inner.split_once(".rs:").map_or(inner, |(file, _)| file);
            format!("  {file}.rs")
        } else if digits.starts_with(" |") && digits.len() < inner.len() {
            format!("LL{digits}")
        } else if line.starts_with(' ') && inner.starts_with(['|', '=']) {
            format!("   {inner}")
        } else {
            line.to_owned()
        });
    }
    lines.join("\n").trim_end().to_owned() + "\n"
}
