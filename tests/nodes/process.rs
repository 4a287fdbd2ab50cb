//! Where nodes run, and one of them as a process.

use std::cell::RefCell;
use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use duly_conformance::history::Entry;
use tempfile::TempDir;

use super::child::{Role, SITE};
use super::log::Reader;

/// How long anything about a node may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store and a history.
#[derive(Debug)]
pub(crate) struct Site {
    folder: TempDir,
    pub(crate) url: String,
    /// The journal of every node, where it is another than the store chooses by itself.
    pub(crate) journal: Option<String>,
    read: RefCell<Reader>,
}

impl Site {
    pub(crate) fn new(url: impl Into<String>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = url.into();
        Self {
            folder,
            url,
            journal: None,
            read: RefCell::default(),
        }
    }

    /// With an embedded store in the folder.
    pub(crate) fn embedded() -> Self {
        let mut site = Self::new("");
        let file = site.folder.path().join("duly.db");
        site.url = format!("sqlite:{}", file.display());
        site
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Every entry of the history so far.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.read.borrow_mut().entries(self.folder()).to_vec()
    }

    /// What the nodes said, warnings and panics.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.folder().join("err")).unwrap_or_default()
    }

    /// Starts a node; it may still be opening the store when this returns.
    pub(crate) fn spawn(&self, role: &Role) -> Node {
        self.spawn_at(&self.url, role)
    }

    /// Starts a node that reaches the store under another URL.
    pub(crate) fn spawn_at(&self, url: &str, role: &Role) -> Node {
        let role = Role {
            journal: role.journal.clone().or_else(|| self.journal.clone()),
            ..role.clone()
        };
        let format = role
            .format
            .map(|format| ("DULY_TEST_FORMAT", format.to_string()));
        let site = (self.folder.path(), url, role);
        let site = serde_json::to_string(&site).expect("it is written as text");
        let log = |name: &str| {
            let path = self.folder.path().join(name);
            let file = File::options().create(true).append(true).open(path);
            file.expect("a file")
        };
        let child = Command::new(env::current_exe().expect("this program has a path"))
            .args(["--exact", "nodes::child", "--nocapture"])
            .env(SITE, site)
            .envs(format)
            .stdin(Stdio::piped())
            .stdout(log("out"))
            .stderr(log("err"))
            .spawn()
            .expect("a child can be started");
        Node {
            child: Some(child),
            err: self.folder.path().join("err"),
        }
    }

    /// Waits until the log says something; fails the test when it does not in time.
    #[allow(clippy::disallowed_methods)] // real time: this is about real processes
    pub(crate) fn wait_until(&self, what: &str, mut holds: impl FnMut(&[Entry]) -> bool) {
        let began = Instant::now();
        while !holds(self.read.borrow_mut().entries(self.folder())) {
            assert!(
                began.elapsed() < PATIENCE,
                "not in time: {what}; the log has {} lines, and children said: {}",
                self.entries().len(),
                self.said()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A node that is a process. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Node {
    child: Option<Child>,
    err: PathBuf,
}

impl Node {
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect("not ended").id()
    }

    /// `kill -9`; it is gone when this returns. Answers the time just before.
    pub(crate) fn kill(mut self) -> u64 {
        let now = now_us();
        self.end();
        now
    }

    /// Sends a signal: `STOP`, `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status();
        assert!(status.expect("kill starts").success(), "kill -s {name}");
    }

    /// Lets it stop pushing, finish what it handles, and end.
    pub(crate) fn stop(mut self) {
        let mut child = self.child.take().expect("not ended");
        drop(child.stdin.take());
        let status = child.wait().expect("a child can be waited for");
        let said = std::fs::read_to_string(&self.err).unwrap_or_default();
        assert!(status.success(), "a child ended with {status}: {said}");
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

/// Wall time in microseconds since the epoch: that of every server on this machine.
#[allow(clippy::disallowed_methods)] // real time: this is about real processes
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("it is after 1970").as_micros() as u64
}
