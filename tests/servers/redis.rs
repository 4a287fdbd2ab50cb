//! One Redis server.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::address::{Address, free_port};
use super::certificates;
use super::home::{Home, Process, output, wait_until};
use super::locale;

/// When the append-only file is synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Aof {
    /// There is none: a restart forgets everything.
    #[default]
    Off,
    /// Each second.
    Everysec,
    /// Before each answer.
    Always,
}

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct RedisOptions {
    pub(crate) aof: Aof,
    /// In bytes; none: no bound.
    pub(crate) maxmemory: Option<u64>,
    /// Listens on a port of 127.0.0.1 as well as on its socket.
    pub(crate) tcp: bool,
    /// Listens with TLS on another port.
    pub(crate) tls: bool,
    /// More arguments of `redis-server`: `["--requirepass", "secret"]`.
    pub(crate) more: Vec<String>,
    /// Another program than the `redis-server` in `PATH`; it orders texts by their bytes.
    pub(crate) program: Option<String>,
    /// The program under which it runs, and its arguments: `["valgrind", "--tool=none"]`.
    pub(crate) under: Vec<String>,
}

/// A server in a folder of its own.
#[derive(Debug)]
pub(crate) struct Redis {
    options: RedisOptions,
    port: u16,
    tls_port: u16,
    process: Process, // before `home`: killed first
    home: Home,
}

impl Redis {
    /// Starts a server; it answers when this returns.
    pub(crate) fn start(options: RedisOptions) -> Self {
        let home = Home::new();
        if options.tls {
            certificates::write(home.path());
        }
        if options.program.is_none() {
            locale::write(home.path());
        }
        let (port, tls_port, process) = launch(&home, &options, None);
        Self {
            options,
            port,
            tls_port,
            process,
            home,
        }
    }

    /// A server that keeps nothing, on a socket.
    pub(crate) fn plain() -> Self {
        Self::start(RedisOptions::default())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.home.path().join("s.sock")
    }

    /// Where it listens: its port where it has one, else its socket.
    pub(crate) fn address(&self) -> Address {
        if self.options.tcp {
            Address::Tcp(self.port)
        } else {
            Address::Unix(self.socket())
        }
    }

    /// Its URL: its port where it has one, else its socket.
    pub(crate) fn url(&self) -> String {
        match self.address() {
            Address::Unix(path) => format!("redis+unix://{}", path.display()),
            Address::Tcp(port) => format!("redis://127.0.0.1:{port}"),
        }
    }

    /// Its URL with TLS, which [`authority`](Self::authority) vouches for.
    pub(crate) fn tls_url(&self) -> String {
        assert!(self.options.tls, "it was started without TLS");
        format!("rediss://127.0.0.1:{}", self.tls_port)
    }

    /// The file with the certificate of who signed that of the server.
    pub(crate) fn authority(&self) -> PathBuf {
        self.home.path().join("ca.crt")
    }

    /// Returns how many bytes its keys take. What newer servers count as used has also what their
    /// scripts have not collected yet.
    pub(crate) fn bytes_of_keys(&self) -> u64 {
        let usage = |key: &str| self.cli(&["MEMORY", "USAGE", key.trim(), "SAMPLES", "0"]);
        let keys = self.cli(&["KEYS", "*"]);
        let bytes = keys.lines().map(|key| usage(key).trim().parse::<u64>());
        bytes.map(|bytes| bytes.expect("it is there")).sum()
    }

    /// What it has written since it was first started, while nothing made it write that anew.
    pub(crate) fn append_only_file(&self) -> PathBuf {
        let folder = self.home.path().join("appendonlydir");
        folder.join("appendonly.aof.1.incr.aof")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// `kill -9`. A second time does nothing.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Lets it end by itself, and with it what it runs under; it keeps nothing.
    pub(crate) fn shut_down(&mut self) {
        self.cli(&["SHUTDOWN", "NOSAVE"]);
        wait_until("the server has ended", || self.process.has_ended());
    }

    /// Starts it again on the same folder and the same ports; killed before if it runs.
    ///
    /// It answers, and has loaded what it has kept, when this returns.
    pub(crate) fn restart(&mut self) {
        self.kill();
        if !matches!(self.options.aof, Aof::Off) {
            mend(&self.home);
        }
        let ports = Some((self.port, self.tls_port));
        (_, _, self.process) = launch(&self.home, &self.options, ports);
    }

    /// `SIGSTOP`: connections stay, and nothing is answered.
    pub(crate) fn stop_process(&self) {
        self.process.signal("STOP");
    }

    /// `SIGCONT`.
    pub(crate) fn cont(&self) {
        self.process.signal("CONT");
    }

    /// Sends a command with `redis-cli`, and answers what it prints.
    pub(crate) fn cli(&self, words: &[&str]) -> String {
        output(
            Command::new("redis-cli")
                .arg("-s")
                .arg(self.socket())
                .args(words),
        )
    }
}

/// What is done before a server is started that was killed, see `src/docs/operations.md`: by itself
/// it keeps the half of a script that it died writing, and runs it at the start after this one.
fn mend(home: &Home) {
    let mut check = Command::new("redis-check-aof")
        .args(["--fix", "appendonlydir/appendonly.aof.manifest"])
        .current_dir(home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-check-aof starts");
    let answer = check.stdin.take().expect("it is piped").write_all(b"y\n");
    drop(answer); // it asks only where there is something to mend
    let status = check.wait().expect("it ends");
    assert!(status.success(), "the append-only file is beyond repair");
}

/// Starts the server and waits until it answers.
fn launch(home: &Home, options: &RedisOptions, ports: Option<(u16, u16)>) -> (u16, u16, Process) {
    loop {
        let (port, tls_port) = ports.unwrap_or_else(|| {
            let port = |wanted: bool| if wanted { free_port() } else { 0 };
            (port(options.tcp), port(options.tls))
        });
        let mut process = home.spawn("redis", &mut command(home, options, port, tls_port));
        let socket = Address::Unix(home.path().join("s.sock"));
        let mut has_ended = false;
        wait_until("the server answers", || {
            has_ended = process.has_ended();
            has_ended || socket.answers()
        });
        if !has_ended {
            return (port, tls_port, process);
        }
        // A free port may be taken by the time the server asks for it: then another is tried.
        let log = std::fs::read_to_string(home.path().join("redis.log")).unwrap_or_default();
        let taken = log.contains("Address already in use");
        assert!(taken && ports.is_none(), "the server has ended:\n{log}");
    }
}

fn command(home: &Home, options: &RedisOptions, port: u16, tls_port: u16) -> Command {
    let (port, tls_port) = (port.to_string(), tls_port.to_string());
    let program = options.program.as_deref().unwrap_or("redis-server");
    let mut words = options.under.iter().map(String::as_str);
    let mut command = Command::new(words.next().unwrap_or(program));
    command.args(words);
    if !options.under.is_empty() {
        command.arg(program);
    }
    command
        .args(["--bind", "127.0.0.1", "--port", &port, "--save", ""])
        .args(["--unixsocket", "s.sock", "--unixsocketperm", "700"])
        .args(["--enable-debug-command", "local"]);
    match options.aof {
        Aof::Off => {}
        Aof::Everysec => {
            command.args(["--appendonly", "yes", "--appendfsync", "everysec"]);
        }
        Aof::Always => {
            command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        }
    }
    if let Some(bytes) = options.maxmemory {
        command.args(["--maxmemory", &bytes.to_string()]);
    }
    if options.tls {
        let files = ["ca.crt", "server.crt", "server.key"];
        let [authority, certificate, key] = files.map(|name| home.path().join(name));
        command
            .args(["--tls-port", &tls_port, "--tls-auth-clients", "no"])
            .arg("--tls-ca-cert-file")
            .arg(authority)
            .arg("--tls-cert-file")
            .arg(certificate)
            .arg("--tls-key-file")
            .arg(key);
    }
    command.args(&options.more);
    if options.program.is_none() {
        locale::set(&mut command, home.path());
    }
    command
}
