//! Servers that many tests use, each test under a key prefix of its own.

use std::fs::{File, create_dir_all};
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, process};

use super::address::Address;
use super::cluster::{self, Cluster};
use super::home::Home;
use super::redis::Redis;

/// Cargo has a folder for what tests leave; tests inside of the library have none of their own.
const TMP: &str = match option_env!("CARGO_TARGET_TMPDIR") {
    Some(folder) => folder,
    None => "/tmp",
};

/// How many nodes the shared cluster has.
const NODES: usize = 6;

/// A prefix that no other test uses, in this process or another.
pub(crate) fn prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("t{}-{number}-{:x}", process::id(), fastrand::u32(..))
}

/// The server of this process: started by the first test that asks, ended with the process.
///
/// It starts in a few hundredths of a second, so that a process for each test can have its own.
pub(crate) fn shared() -> &'static Redis {
    static SHARED: LazyLock<Redis> = LazyLock::new(Redis::plain);
    &SHARED
}

/// The URL of a cluster of six that all tests of this target folder share.
///
/// Six nodes take seconds to find each other, too long for a process that runs one test. Who comes
/// first starts them; they end when no process has asked for 20 seconds. A test that moves slots
/// or kills nodes starts a [`Cluster`] of its own.
pub(crate) fn shared_cluster() -> String {
    static USED: LazyLock<(File, Vec<u16>)> =
        LazyLock::new(|| join(&Path::new(TMP).join("shared-cluster")));
    cluster::url(USED.1.iter().copied())
}

/// Finds or starts the cluster that a folder points to. While the file is open, it is in use.
fn join(folder: &Path) -> (File, Vec<u16>) {
    create_dir_all(folder).expect("a folder");
    let file = |name: &str| {
        let file = File::options()
            .create(true)
            .append(true)
            .open(folder.join(name));
        file.expect("a lock's file")
    };
    let (users, starting) = (file("users"), file("starting"));
    starting.lock().expect("a lock"); // one starts it, the others wait and find it
    users.lock_shared().expect("a lock");
    let pointer = folder.join("nodes");
    let ports = match find(&pointer) {
        Some(ports) => ports,
        None => start(&folder.join("users"), &pointer),
    };
    (users, ports)
}

/// The ports of the running cluster, if there is one: its folder and its nodes all live.
fn find(pointer: &Path) -> Option<Vec<u16>> {
    let text = fs::read_to_string(pointer).ok()?;
    let mut words = text.split_whitespace();
    let folder = Path::new(words.next()?);
    let ports: Option<Vec<u16>> = words.map(|word| word.parse().ok()).collect();
    let ports = ports.filter(|ports| ports.len() == NODES)?;
    let lives =
        |port: &u16| folder.join(format!("{port}.log")).exists() && Address::Tcp(*port).answers();
    ports.iter().all(lives).then_some(ports)
}

fn start(users: &Path, pointer: &Path) -> Vec<u16> {
    let cluster = Cluster::start_in(Home::shared(users, pointer), NODES);
    let ports: Vec<u16> = cluster.ports().collect();
    let words = ports
        .iter()
        .map(u16::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    let text = format!("{} {words}\n", cluster.home().display());
    fs::write(pointer, text).expect("the pointer is written");
    cluster.leave();
    ports
}
