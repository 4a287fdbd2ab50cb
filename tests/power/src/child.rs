//! The process that uses the disk: the test binary calls itself.
//!
//! It never is the process that serves the disk, which would wait for itself. It says what it does
//! and what it was answered, a line each; the pipe keeps a line that was written, whatever happens
//! to the process.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::{controls, doubt, full, journal, work};

const ROLE: &str = "DULY_POWER_ROLE";
const FOLDER: &str = "DULY_POWER_FOLDER";
/// Before each line, as the harness may have begun it; a line ends in a point, unless it was cut.
const MARK: char = '|';
/// How long a child may take, in seconds.
const LIMIT: &str = "60";

/// Says one thing to the parent.
#[allow(clippy::print_stdout, reason = "it talks to its parent")]
pub(crate) fn say(words: impl std::fmt::Display) {
    println!("{MARK}{words}.");
}

/// What a child said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) lines: Vec<String>,
    pub(crate) status: ExitStatus,
}

impl Said {
    /// The lines that begin with `word`, without it.
    pub(crate) fn after<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines
            .iter()
            .filter_map(move |line| line.strip_prefix(word))
    }

    /// That it ended well.
    pub(crate) fn expect_well(&self, what: &str) {
        let failed: Vec<_> = self.after("failed ").collect();
        assert!(
            self.status.success() && failed.is_empty(),
            "{what}: {} {failed:?}",
            self.status
        );
    }
}

/// A child that plays `role` in `folder`, killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a child until it ends.
pub(crate) fn run(role: &str, folder: &Path) -> Said {
    let mut command = Command::new("timeout");
    command
        .args([OsStr::new("--signal=KILL"), OsStr::new(LIMIT)])
        .arg(env::current_exe().expect("the test binary"))
        .args([
            "child::plays_its_part",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = Running(command.spawn().expect("a child"));
    let output = child.0.stdout.take().expect("its output is piped");
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    let lines = lines.filter_map(|line| {
        let said = &line[line.find(MARK)? + 1..];
        Some(said.strip_suffix('.')?.to_owned())
    });
    let lines = lines.collect();
    let status = child.0.wait().expect("its end");
    Said { lines, status }
}

/// Not a test by itself: it is what a child runs.
#[test]
fn plays_its_part() {
    let (Ok(role), Some(folder)) = (env::var(ROLE), env::var_os(FOLDER)) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let words: Vec<_> = role.split(' ').collect();
    let number = |at: usize| words[at].parse().expect("a number");
    match words[0] {
        "work" => work::work(&folder, number(1), number(2)),
        "open" => work::open(&folder),
        "synced" => controls::writes_synced(&folder),
        "unsynced" => controls::writes_unsynced(&folder),
        "sqlite" => controls::inserts(&folder, words[1]),
        "script" => doubt::script(&folder),
        "on" => doubt::goes_on(&folder, number(1)),
        "loads" => journal::loads(&folder, number(1), number(2)),
        "fill" => full::fill(&folder),
        other => panic!("nobody plays {other}"),
    }
}
