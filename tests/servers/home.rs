//! A folder in which servers run, and the keeper that ends them and removes it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// How long anything about a server may take before the test fails.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A folder of its own for servers. With its end they end.
#[derive(Debug)]
pub(super) struct Home {
    folder: PathBuf,
    /// `None` when the folder outlives this process.
    keeper: Option<Child>,
}

impl Home {
    /// A folder that is gone when this is dropped, or when this process has ended in any way.
    pub(super) fn new() -> Self {
        let folder = folder();
        let mut keeper = keeper(&[folder.as_os_str()]);
        keeper.stdin(Stdio::piped());
        let keeper = keeper.spawn().expect("the keeper starts");
        Self {
            folder,
            keeper: Some(keeper),
        }
    }

    /// A folder that is gone once nobody has held `lock` for a while; then `pointer` goes as well.
    pub(super) fn shared(lock: &Path, pointer: &Path) -> Self {
        let folder = folder();
        let mut keeper = keeper(&[folder.as_os_str(), lock.as_os_str(), pointer.as_os_str()]);
        keeper.stdin(Stdio::null());
        drop(keeper.spawn().expect("the keeper starts"));
        Self {
            folder,
            keeper: None,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// Starts a server in the folder; what it says goes to the file `<name>.log`.
    ///
    /// In a process group of its own, or a Ctrl-C would end it before what its test still asks.
    pub(super) fn spawn(&self, name: &str, command: &mut Command) -> Process {
        let log = File::create(self.folder.join(format!("{name}.log"))).expect("a log");
        let child = command
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        Process(Some(child))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            drop(keeper.stdin.take());
            keeper.wait().ok();
        }
    }
}

/// Sockets lie in it, whose paths may have 107 bytes at most: not in the target folder.
fn folder() -> PathBuf {
    let folder = tempfile::Builder::new().prefix("duly-").tempdir();
    folder.expect("a temporary folder").keep()
}

fn keeper(arguments: &[&OsStr]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", include_str!("keep.sh"), "keep.sh"])
        .args(arguments)
        .current_dir("/")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0); // a Ctrl-C ends the test, and the keeper has to outlive it
    command
}

/// A server that this process started.
#[derive(Debug)]
pub(super) struct Process(Option<Child>);

impl Process {
    pub(super) fn id(&self) -> u32 {
        self.0.as_ref().expect("not killed").id()
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        let child = self.0.as_mut();
        child.is_none_or(|child| child.try_wait().expect("it can be asked").is_some())
    }

    /// `kill -9`; it is gone when this returns. A second time does nothing.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Sends a signal: `STOP`, `CONT`.
    pub(super) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status();
        assert!(status.expect("kill starts").success(), "kill -s {name}");
    }

    /// Lets it go on running after this process; its folder's keeper ends it.
    pub(super) fn leave(&mut self) {
        self.0 = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until a condition holds; fails the test when it does not within [`PATIENCE`].
#[allow(clippy::disallowed_methods)] // real time: this is about real processes
pub(super) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a program to its end and answers what it printed, without the last line's end.
pub(super) fn output(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{command:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.trim_end().to_owned()
}
