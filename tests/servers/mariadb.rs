//! One MariaDB server.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::home::{Home, Process, output, wait_until};
use super::postgres::is_root;

/// A server in a folder of its own, which listens on a socket there. Its user `root` needs no
/// password.
#[derive(Debug)]
pub(crate) struct MariaDb {
    process: Process, // before `home`: ended first
    home: Home,
}

impl MariaDb {
    /// Starts a server; it answers when this returns.
    pub(crate) fn start() -> Self {
        Self::start_in(Home::new())
    }

    pub(super) fn start_in(home: Home) -> Self {
        if is_root() {
            // The server does not run as root.
            let mut chown = Command::new("chown");
            output(chown.args(["-R", "mysql:"]).arg(home.path()));
        }
        let mut install = command("mariadb-install-db", &home);
        install
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
            .args(["--skip-name-resolve", "--innodb-log-file-size=4M"]);
        output(&mut install);
        let process = launch(&home);
        Self { process, home }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.home.path()
    }

    /// The URL of one of its databases.
    pub(crate) fn url(&self, database: &str) -> String {
        url_at(self.folder(), "root", database)
    }

    /// Runs statements, and answers what they print.
    pub(crate) fn sql(&self, statements: &str) -> String {
        sql(self.folder(), statements)
    }

    /// `kill -9`. A second time does nothing.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again on the same data; killed before if it runs.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.process = launch(&self.home);
    }

    /// Lets it go on running after this process; its folder's keeper ends it.
    pub(super) fn leave(mut self) {
        self.process.leave();
    }
}

/// The URL of a database of the server in a folder.
pub(super) fn url_at(folder: &Path, user: &str, database: &str) -> String {
    format!(
        "mysql://{user}@localhost/{database}?socket={}",
        socket(folder).display()
    )
}

/// Runs statements on the server in a folder, and answers what they print.
pub(super) fn sql(folder: &Path, statements: &str) -> String {
    let mut client = Command::new("mariadb");
    client
        .args([
            "--no-defaults",
            "--batch",
            "--skip-column-names",
            "--user=root",
            "--socket",
        ])
        .arg(socket(folder))
        .args(["--execute", statements]);
    output(&mut client)
}

/// Whether the server in a folder answers.
pub(super) fn answers(folder: &Path) -> bool {
    UnixStream::connect(socket(folder)).is_ok()
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("mariadb.sock")
}

/// Starts the server and waits until it answers.
fn launch(home: &Home) -> Process {
    fs::remove_file(socket(home.path())).ok(); // of a server that was killed
    let mut server = command("mariadbd", home);
    server
        .arg("--skip-networking")
        .arg(format!("--socket={}", socket(home.path()).display()))
        .arg(format!("--tmpdir={}", home.path().display()))
        .arg(format!(
            "--pid-file={}",
            home.path().join("mariadb.pid").display()
        ))
        .args(["--innodb-log-file-size=4M", "--innodb-buffer-pool-size=32M"])
        // Processes are killed, the machine is not.
        .args([
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-doublewrite=0",
        ])
        .args([
            "--max-connections=500",
            "--skip-name-resolve",
            "--performance-schema=off",
        ]);
    let mut process = home.spawn("mariadb", &mut server);
    wait_until("the server answers", || {
        let log = || fs::read_to_string(home.path().join("mariadb.log")).unwrap_or_default();
        assert!(!process.has_ended(), "the server has ended:\n{}", log());
        answers(home.path())
    });
    process
}

/// A program of the server, run by a user who is not root, with the data in the folder.
fn command(name: &str, home: &Home) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=mysql", "--regid=mysql", "--clear-groups"])
            .arg(program(name));
        command
    } else {
        Command::new(program(name))
    };
    let data = home.path().join("data");
    command
        .current_dir(home.path())
        .arg("--no-defaults")
        .arg(format!("--datadir={}", data.display()));
    command
}

/// Where a program of the server is; Debian keeps one of them where only root looks.
fn program(name: &str) -> PathBuf {
    let path = Path::new("/usr/sbin").join(name);
    if path.exists() {
        path
    } else {
        PathBuf::from(name)
    }
}
