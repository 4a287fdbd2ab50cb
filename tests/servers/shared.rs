//! Servers that many tests use, each test under a key prefix of its own.

use std::fs::{File, create_dir_all};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, process};

use super::address::Address;
use super::cluster::{self, Cluster};
use super::home::Home;
use super::mariadb::{self, MariaDb};
use super::postgres::{self, Postgres, PostgresOptions};
use super::redis::{Redis, RedisOptions};

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

/// A program that a variable names.
fn program_of(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "{variable} names a program as redis-server is; tests/run.sh installs one and sets it"
        )
    })
}

/// The newest program that the tests know, a Valkey.
pub(crate) fn newest_program() -> String {
    program_of("DULY_NEWEST_REDIS")
}

fn start(program: String) -> Redis {
    Redis::start(RedisOptions {
        program: Some(program),
        ..RedisOptions::default()
    })
}

/// The server of this process that runs it.
pub(crate) fn shared_newest() -> &'static Redis {
    static SHARED: LazyLock<Redis> = LazyLock::new(|| start(newest_program()));
    &SHARED
}

/// The server of this process that is a Redis 8.
pub(crate) fn shared_redis_8() -> &'static Redis {
    static SHARED: LazyLock<Redis> = LazyLock::new(|| start(program_of("DULY_REDIS_8")));
    &SHARED
}

/// The URL of a cluster of six that all tests of this target folder share.
///
/// Six nodes take seconds to find each other, too long for a process that runs one test. Who comes
/// first starts them; they end when no process has asked for 20 seconds. A test that moves slots
/// or kills nodes starts a [`Cluster`] of its own.
pub(crate) fn shared_cluster() -> String {
    static USED: LazyLock<(File, Vec<u16>)> =
        LazyLock::new(|| join("shared-cluster", find_cluster, start_cluster));
    cluster::url(USED.1.iter().copied())
}

/// A PostgreSQL server that many tests use, each in a schema of its own.
#[derive(Debug)]
pub(crate) struct SharedPostgres {
    folder: PathBuf,
    port: u16,
}

impl SharedPostgres {
    /// Its URL.
    pub(crate) fn url(&self) -> String {
        postgres::url_at(self.port)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> Address {
        Address::Tcp(self.port)
    }

    /// Runs statements, and answers what they print: columns with a `|` between them.
    pub(crate) fn sql(&self, statements: &str) -> String {
        postgres::sql(&self.folder, self.port, statements)
    }
}

/// The server that all tests of this target folder share; no test kills it or changes a setting.
///
/// Its first start takes a second of work, too much for a process that runs one test. It ends when
/// no process has asked for 20 seconds.
pub(crate) fn shared_postgres() -> &'static SharedPostgres {
    static USED: LazyLock<(File, SharedPostgres)> =
        LazyLock::new(|| join("shared-postgres", find_postgres, start_postgres));
    &USED.1
}

/// A MariaDB server that many tests use, each in a database of its own.
#[derive(Debug)]
pub(crate) struct SharedMariaDb {
    folder: PathBuf,
}

impl SharedMariaDb {
    /// The URL of one of its databases, for one of its users.
    pub(crate) fn url(&self, user: &str, database: &str) -> String {
        mariadb::url_at(&self.folder, user, database)
    }

    /// Runs statements, and answers what they print.
    pub(crate) fn sql(&self, statements: &str) -> String {
        mariadb::sql(&self.folder, statements)
    }
}

/// The server that all tests of this target folder share; no test kills it or changes a setting. It
/// ends when no process has asked for 20 seconds.
pub(crate) fn shared_mariadb() -> &'static SharedMariaDb {
    static USED: LazyLock<(File, SharedMariaDb)> = LazyLock::new(|| {
        let find = |folder: &Path, _: &[u16]| {
            let folder = folder.to_owned();
            mariadb::answers(&folder).then_some(SharedMariaDb { folder })
        };
        let start = |users: &Path, pointer: &Path| {
            let server = MariaDb::start_in(Home::shared(users, pointer));
            let folder = server.folder().to_owned();
            point(pointer, &folder, &[]);
            server.leave();
            SharedMariaDb { folder }
        };
        join("shared-mariadb", find, start)
    });
    &USED.1
}

/// Finds or starts the servers that a folder points to. While the file is open, they are in use.
fn join<T>(
    name: &str,
    find: impl Fn(&Path, &[u16]) -> Option<T>,
    start: impl Fn(&Path, &Path) -> T,
) -> (File, T) {
    let folder = Path::new(TMP).join(name);
    create_dir_all(&folder).expect("a folder");
    let file = |name: &str| {
        let file = File::options()
            .create(true)
            .append(true)
            .open(folder.join(name));
        file.expect("a lock's file")
    };
    let (users, starting) = (file("users"), file("starting"));
    starting.lock().expect("a lock"); // one starts them, the others wait and find them
    users.lock_shared().expect("a lock");
    let pointer = folder.join("nodes");
    let found = pointed(&pointer).and_then(|(folder, ports)| find(&folder, &ports));
    let found = found.unwrap_or_else(|| start(&folder.join("users"), &pointer));
    (users, found)
}

/// The folder and the ports that a pointer names.
fn pointed(pointer: &Path) -> Option<(PathBuf, Vec<u16>)> {
    let text = fs::read_to_string(pointer).ok()?;
    let mut words = text.split_whitespace();
    let folder = PathBuf::from(words.next()?);
    let ports: Option<Vec<u16>> = words.map(|word| word.parse().ok()).collect();
    Some((folder, ports?))
}

fn point(pointer: &Path, folder: &Path, ports: &[u16]) {
    let words = ports
        .iter()
        .map(u16::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    let text = format!("{} {words}\n", folder.display());
    fs::write(pointer, text).expect("the pointer is written");
}

/// The running cluster, if there is one: its folder and its nodes all live.
fn find_cluster(folder: &Path, ports: &[u16]) -> Option<Vec<u16>> {
    let lives =
        |port: &u16| folder.join(format!("{port}.log")).exists() && Address::Tcp(*port).answers();
    (ports.len() == NODES && ports.iter().all(lives)).then(|| ports.to_vec())
}

fn start_cluster(users: &Path, pointer: &Path) -> Vec<u16> {
    let cluster = Cluster::start_in(Home::shared(users, pointer), NODES);
    let ports: Vec<u16> = cluster.ports().collect();
    point(pointer, cluster.home(), &ports);
    cluster.leave();
    ports
}

fn find_postgres(folder: &Path, ports: &[u16]) -> Option<SharedPostgres> {
    let port = *ports.first()?;
    let shared = || SharedPostgres {
        folder: folder.to_owned(),
        port,
    };
    postgres::answers(folder, port).then(shared)
}

fn start_postgres(users: &Path, pointer: &Path) -> SharedPostgres {
    let server = Postgres::start_in(Home::shared(users, pointer), PostgresOptions::default());
    let shared = SharedPostgres {
        folder: server.folder().to_owned(),
        port: server.port(),
    };
    point(pointer, &shared.folder, &[shared.port]);
    server.leave();
    shared
}
