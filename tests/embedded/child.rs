//! Real processes: the test binary calls itself to be killed, limited or locked out.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

const PATH: &str = "DULY_TEST_CHILD_PATH";

/// The store that this process was started for, when it is a child.
pub(crate) fn path() -> Option<PathBuf> {
    std::env::var_os(PATH).map(PathBuf::from)
}

/// A child that does what the test `part` does when [`path`] names a store.
pub(crate) fn command(part: &str, store: &Path) -> Command {
    let program = std::env::current_exe().expect("the test binary");
    prepared(Command::new(program), part, store)
}

fn prepared(mut command: Command, part: &str, store: &Path) -> Command {
    command
        .arg(format!("embedded::{part}"))
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .env(PATH, store)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// A running child and what it says, line by line; killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("a child");
        let stdout = child.stdout.take().expect("its output is piped");
        let lines = BufReader::new(stdout).lines();
        Self { child, lines }
    }

    /// The rest of the next line that starts with `word`; `None` when there is none any more.
    pub(crate) fn next(&mut self, word: &str) -> Option<String> {
        self.lines.find_map(|line| {
            let line = line.ok()?;
            // The harness may have begun the line.
            let at = line.find(word)?;
            Some(line[at + word.len()..].trim().to_owned())
        })
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a living child");
        self.child.wait().expect("its end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
