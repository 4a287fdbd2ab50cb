//! One PostgreSQL server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::address::{Address, free_port};
use super::certificates;
use super::home::{Home, Process, output, wait_until};

/// The password of the user `duly`, who may do everything.
pub(crate) const PASSWORD: &str = "open-sesame";

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct PostgresOptions {
    /// Offers TLS as well.
    pub(crate) tls: bool,
    /// More settings: `["max_connections=20"]`.
    pub(crate) more: Vec<String>,
}

/// A server in a folder of its own, with the database `postgres`.
///
/// It syncs as any other does. On its socket everybody is believed, on its port nobody without a
/// password.
#[derive(Debug)]
pub(crate) struct Postgres {
    options: PostgresOptions,
    port: u16,
    process: Process, // before `home`: ended first
    home: Home,
}

impl Postgres {
    /// Starts a server; it answers when this returns.
    pub(crate) fn start(options: PostgresOptions) -> Self {
        Self::start_in(Home::new(), options)
    }

    pub(super) fn start_in(home: Home, options: PostgresOptions) -> Self {
        fs::write(home.path().join("password"), PASSWORD).expect("a file");
        if options.tls {
            certificates::write(home.path());
        }
        if is_root() {
            // The server does not run as root, and a key is its own or it refuses it.
            output(
                Command::new("chown")
                    .args(["-R", "postgres:"])
                    .arg(home.path()),
            );
        }
        let mut initdb = command("initdb", &home);
        initdb
            .args(["-D", "data", "-U", "duly", "--pwfile", "password"])
            .args(["--auth-local", "trust", "--auth-host", "scram-sha-256"])
            .args(["-E", "UTF8", "--locale", "C", "--no-sync"]);
        output(&mut initdb);
        let (port, process) = launch(&home, &options, None);
        Self {
            options,
            port,
            process,
            home,
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its port.
    pub(crate) fn address(&self) -> Address {
        Address::Tcp(self.port)
    }

    /// Its URL, by its port.
    pub(crate) fn url(&self) -> String {
        url_at(self.port)
    }

    /// Its URL, by its socket and without a password.
    pub(crate) fn socket_url(&self) -> String {
        let folder = self.folder().display().to_string().replace('/', "%2F");
        format!("postgres://duly@{folder}:{}/postgres", self.port)
    }

    /// The file with the certificate of who signed that of the server.
    pub(crate) fn authority(&self) -> PathBuf {
        assert!(self.options.tls, "it was started without TLS");
        self.folder().join("ca.crt")
    }

    /// Runs statements with `psql`, and answers what they print: columns with a `|` between them.
    pub(crate) fn sql(&self, statements: &str) -> String {
        sql(self.folder(), self.port, statements)
    }

    /// How long processors have worked for its processes that run now; `None` where the system does
    /// not tell.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        let of = |id: &String| -> Option<u64> {
            let told = fs::read_to_string(format!("/proc/{id}/schedstat")).ok()?;
            told.split_whitespace().next()?.parse().ok()
        };
        let all = running_in(&self.folder().join("data"));
        let all: Vec<u64> = all.iter().filter_map(of).collect();
        (!all.is_empty()).then(|| Duration::from_nanos(all.iter().sum()))
    }

    /// `kill -9` of the server and all its processes. A second time does nothing.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
        let data = self.folder().join("data");
        wait_until("the server's processes have ended", || {
            let rest = running_in(&data);
            for id in &rest {
                Command::new("kill").args(["-9", id]).output().ok();
            }
            rest.is_empty()
        });
    }

    /// Ends it by an immediate stop: its processes end without what an ordered end does.
    #[allow(dead_code)] // of those who take this in, one needs it
    pub(crate) fn stop_immediately(&mut self) {
        self.process.signal("QUIT");
        wait_until("the server has ended", || self.process.has_ended());
    }

    /// Starts it again on the same data and the same port; killed before if it runs.
    pub(crate) fn restart(&mut self) {
        self.kill();
        (_, self.process) = launch(&self.home, &self.options, Some(self.port));
    }

    /// Starts it again as one that was restored from a backup, of which nothing is missing: on a
    /// timeline of its own.
    #[allow(dead_code)] // of those who take this in, one needs it
    pub(crate) fn restore(&mut self) {
        self.kill();
        fs::write(self.folder().join("data/recovery.signal"), "").expect("a file");
        self.options.more.push("restore_command=false".to_owned());
        self.restart();
        wait_until("the server is restored", || {
            self.sql("select pg_is_in_recovery()") == "f"
        });
    }

    /// Starts a standby of it, from a copy of its data; it is stopped meanwhile.
    #[allow(dead_code)] // of those who take this in, one needs it
    pub(crate) fn standby(&mut self) -> Self {
        self.process.signal("INT"); // by then its data are whole
        wait_until("the server has ended", || self.process.has_ended());
        let (home, mut options) = (Home::new(), self.options.clone());
        let mut copy = Command::new("cp");
        output(
            copy.arg("-a")
                .arg(self.folder().join("data"))
                .arg(home.path()),
        );
        fs::write(home.path().join("data/standby.signal"), "").expect("a file");
        if is_root() {
            let mut chown = Command::new("chown");
            output(chown.args(["-R", "postgres:"]).arg(home.path()));
        }
        self.restart();
        options.more.push(format!(
            "primary_conninfo=host=127.0.0.1 port={} user=duly password={PASSWORD}",
            self.port
        ));
        let (port, process) = launch(&home, &options, None);
        Self {
            options,
            port,
            process,
            home,
        }
    }

    /// `SIGSTOP` to every process of it: connections stay, and nothing is answered.
    pub(crate) fn stop_process(&self) {
        self.signal_all("STOP");
    }

    /// `SIGCONT`.
    pub(crate) fn cont(&self) {
        self.signal_all("CONT");
    }

    fn signal_all(&self, name: &str) {
        self.process.signal(name);
        for id in running_in(&self.folder().join("data")) {
            Command::new("kill").args(["-s", name, &id]).output().ok();
        }
    }

    /// Lets it go on running after this process; its folder's keeper ends it.
    pub(super) fn leave(mut self) {
        self.process.leave();
    }
}

/// Asks it to end at once, so that it gives its shared memory back; killed if it does not.
impl Drop for Postgres {
    fn drop(&mut self) {
        if !self.process.has_ended() {
            self.process.signal("QUIT");
            self.process.signal("CONT");
            for _ in 0..2_000 {
                if self.process.has_ended() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
}

/// The URL of a server on this machine.
pub(super) fn url_at(port: u16) -> String {
    format!("postgres://duly:{PASSWORD}@127.0.0.1:{port}/postgres")
}

/// Runs statements on the server whose socket lies in a folder.
pub(super) fn sql(folder: &Path, port: u16, statements: &str) -> String {
    let mut psql = Command::new(program("psql"));
    psql.args([
        "-X",
        "-q",
        "-t",
        "-A",
        "-v",
        "ON_ERROR_STOP=1",
        "-U",
        "duly",
    ])
    .arg("-h")
    .arg(folder)
    .args(["-p", &port.to_string(), "-d", "postgres", "-c", statements]);
    output(&mut psql)
}

/// The name of a schema that no other test uses, in this process or another.
pub(crate) fn schema() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("t{}_{number}_{:x}", std::process::id(), fastrand::u32(..))
}

/// Whether a server answers at the socket in a folder.
pub(super) fn answers(folder: &Path, port: u16) -> bool {
    let mut ready = Command::new(program("pg_isready"));
    ready
        .arg("-q")
        .arg("-h")
        .arg(folder)
        .args(["-p", &port.to_string()]);
    ready.status().is_ok_and(|status| status.success())
}

/// Starts the server and waits until it answers.
fn launch(home: &Home, options: &PostgresOptions, port: Option<u16>) -> (u16, Process) {
    loop {
        let chosen = port.unwrap_or_else(free_port);
        let mut process = home.spawn("postgres", &mut server(home, options, chosen));
        let mut has_ended = false;
        wait_until("the server answers", || {
            has_ended = process.has_ended();
            has_ended || answers(home.path(), chosen)
        });
        if !has_ended {
            return (chosen, process);
        }
        // A free port may be taken by the time the server asks for it: then another is tried.
        let log = fs::read_to_string(home.path().join("postgres.log")).unwrap_or_default();
        let taken = log.contains("Address already in use");
        assert!(taken && port.is_none(), "the server has ended:\n{log}");
    }
}

fn server(home: &Home, options: &PostgresOptions, port: u16) -> Command {
    let mut server = command("postgres", home);
    let mut set = |setting: &str| {
        server.args(["-c", setting]);
    };
    set("listen_addresses=127.0.0.1");
    set(&format!("port={port}"));
    set(&format!(
        "unix_socket_directories={}",
        home.path().display()
    ));
    // In the folder, so that it goes with it however the server ends.
    set("dynamic_shared_memory_type=mmap");
    if options.tls {
        set("ssl=on");
        set(&format!(
            "ssl_cert_file={}",
            home.path().join("server.crt").display()
        ));
        set(&format!(
            "ssl_key_file={}",
            home.path().join("server.key").display()
        ));
    }
    for setting in &options.more {
        set(setting);
    }
    server.args(["-D", "data"]);
    server
}

/// A program of the server, run by a user who is not root.
fn command(name: &str, home: &Home) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=postgres", "--regid=postgres", "--clear-groups"])
            .arg(program(name));
        command
    } else {
        Command::new(program(name))
    };
    command.current_dir(home.path());
    command
}

/// Where a program of the server is: in the folder that `DULY_POSTGRES` names, which has those of another
/// version, or where Debian keeps it beside the `PATH`.
fn program(name: &str) -> PathBuf {
    let other = std::env::var_os("DULY_POSTGRES").map(|folder| Path::new(&folder).join(name));
    if let Some(other) = other.filter(|other| other.exists()) {
        return other;
    }
    let versions = fs::read_dir("/usr/lib/postgresql");
    let mut found: Vec<PathBuf> = versions
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin").join(name))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| PathBuf::from(name))
}

pub(super) fn is_root() -> bool {
    output(Command::new("id").arg("-u")) == "0"
}

/// The ids of the processes that run in a folder.
fn running_in(folder: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("there is /proc");
    processes
        .flatten()
        .filter(|it| fs::read_link(it.path().join("cwd")).is_ok_and(|cwd| cwd == folder))
        .filter_map(|it| it.file_name().into_string().ok())
        .collect()
}
