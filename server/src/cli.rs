//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::command::OperatorCommand;
use crate::demo::Demo;
use clap::{Args, Parser, Subcommand};
use duly_server::Settings;
use duly_server::settings::{ClockKind, Overrides, SettingsError, address};

/// A delayed job queue over HTTP, and the commands of its operator.
///
/// Exit codes: 0 done, 1 failed, 2 wrong usage or not confirmed, 3 not found, 4 the state of the
/// event does not allow it, 5 store or server not available or not in time, 6 not allowed.
#[derive(Debug, Parser)]
#[command(name = "duly", version, about)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the server
    Serve(Serve),
    /// Runs a made-up shop with its dashboard, to look around
    Demo(Demo),
    #[command(flatten)]
    Operator(Box<OperatorCommand>),
}

/// Every flag overrides the environment, which overrides the file.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The settings file [default: duly-server.toml in the working directory, if it exists]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address of the API [default: 127.0.0.1:7777]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// The address of the admin interface [default: 127.0.0.1:7778]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    admin_listen: Option<SocketAddr>,
    /// The store of the pool `default`: memory:, sqlite:FILE, redis://HOST or redis-cluster://HOSTS
    /// [default: sqlite:duly.db]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The database of a program whose outbox is relayed: postgres://, sqlite:FILE or, by the feature
    /// `mysql`, mysql://
    #[arg(
        long,
        value_name = "URL",
        hide_env_values = true,
        env = "DULY_SERVER__OUTBOX__URL"
    )]
    outbox: Option<String>,
    /// The clock: system, or manual for tests of programs, with --store memory: alone; `POST
    /// /clock/advance` on the admin interface moves it [default: system]
    #[arg(long, value_name = "CLOCK")]
    clock: Option<ClockKind>,
    /// Stops as by TERM once the standard input has ended, as a pipe does when the program that
    /// started the server is gone, even killed: no test leaves a server behind
    #[arg(long)]
    pub(crate) stop_with_stdin: bool,
    /// The log level: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

impl Serve {
    pub(crate) fn settings(self) -> Result<Settings, SettingsError> {
        Settings::load(
            self.config.as_deref(),
            Overrides {
                listen: self.listen,
                admin_listen: self.admin_listen,
                store: self.store,
                outbox: self.outbox,
                clock: self.clock,
                log_level: self.log_level,
            },
        )
    }
}
