//! PgBouncer before a PostgreSQL.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::address::free_port;
use super::home::{Home, Process, wait_until};
use super::postgres::{self, Postgres, is_root};

/// Where it listens.
const HOST: &str = "127.0.0.1";

/// A pooler that lends one session of a server to all its clients, a transaction at a time.
#[derive(Debug)]
pub(crate) struct Pooler {
    port: u16,
    _process: Process, // before `home`: ended first
    _home: Home,
}

impl Pooler {
    /// Starts it; it takes connections when this returns.
    pub(crate) fn start(server: &Postgres) -> Self {
        let home = Home::new();
        loop {
            let port = free_port();
            let settings = format!(
                "[databases]\npostgres = host={} port={} user=duly dbname=postgres\n\
                 [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
                 auth_type = any\npool_mode = transaction\ndefault_pool_size = 1\n\
                 server_tls_sslmode = disable\n{}\n",
                server.folder().display(),
                server.port(),
                // It does not run as root.
                if is_root() { "user = postgres" } else { "" },
            );
            let file = home.path().join("pgbouncer.ini");
            fs::write(&file, settings).expect("a file");
            let mut process = home.spawn("pgbouncer", Command::new("pgbouncer").arg(&file));
            let mut has_ended = false;
            wait_until("the pooler answers", || {
                has_ended = process.has_ended();
                has_ended || postgres::answers(Path::new(HOST), port)
            });
            if !has_ended {
                return Self {
                    port,
                    _process: process,
                    _home: home,
                };
            }
            let log = fs::read_to_string(home.path().join("pgbouncer.log")).unwrap_or_default();
            let is_taken = log.contains("Address already in use");
            assert!(is_taken, "the pooler has ended:\n{log}");
        }
    }

    /// The URL of the server behind it.
    pub(crate) fn url(&self) -> String {
        format!(
            "postgres://duly@127.0.0.1:{}/postgres?sslmode=disable",
            self.port
        )
    }

    /// Runs statements in the session that it lends, and returns what they print.
    pub(crate) fn sql(&self, statements: &str) -> String {
        postgres::sql(Path::new(HOST), self.port, statements)
    }
}
