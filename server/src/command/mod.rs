//! The commands of an operator: they read or change a store, or a server that runs.
//!
//! [`source`] is the trait of what they work on, [`store`] and [`remote`] implement it; [`output`]
//! renders, [`error`] has the exit codes, [`view`] the forms of JSON.

mod audit;
mod bench;
mod bulk_source;
mod dead;
mod doctor;
mod empty;
mod error;
mod event;
mod event_bulk;
mod event_list;
mod event_replay;
mod forecast;
mod health;
mod http;
mod interruption;
mod manual;
mod node;
mod outbox;
mod output;
mod purge;
mod queue;
mod records;
mod remote;
mod schedule;
mod source;
mod store;
mod token;
mod top;
mod values;
mod view;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use duly_server::Settings;
use duly_server::settings::Overrides;

use self::bulk_source::BulkSource;
pub(crate) use self::error::CommandError;
use self::error::Result;
use self::output::Output;
pub(crate) use self::output::said;
use self::remote::Server;
use self::schedule::{ScheduleCommand, ScheduleSource};
use self::source::Source;
use self::store::Store;

#[derive(Debug, Subcommand)]
pub(crate) enum OperatorCommand {
    /// Queues: list, show, pause, resume, set, drain, purge
    Queue {
        #[command(flatten)]
        target: Target,
        #[command(subcommand)]
        command: queue::QueueCommand,
    },
    /// Events: list, show, explain, cancel, reschedule, run now, update, erase, replay
    Event {
        #[command(flatten)]
        target: Target,
        #[command(subcommand)]
        command: event::EventCommand,
    },
    /// Dead letters: list, show, revive, drop
    Dead {
        #[command(flatten)]
        target: Target,
        #[command(subcommand)]
        command: dead::DeadCommand,
    },
    /// Shows records: how attempts and events ended
    Records {
        #[command(flatten)]
        command: records::RecordsCommand,
        #[command(flatten)]
        target: Target,
    },
    /// Shows who did what to what: on pages, over the API, and by commands
    Audit {
        #[command(flatten)]
        command: audit::AuditCommand,
        #[command(flatten)]
        target: Target,
    },
    /// Processes that have handlers: list
    Node {
        #[command(flatten)]
        target: Target,
        #[command(subcommand)]
        command: node::NodeCommand,
    },
    /// Shows what falls due when, as a chart
    Forecast {
        #[command(flatten)]
        command: forecast::ForecastCommand,
        #[command(flatten)]
        target: Target,
    },
    /// Checks a store for damage, and repairs it on request
    Doctor {
        #[command(flatten)]
        command: doctor::DoctorCommand,
        #[command(flatten)]
        target: Target,
    },
    /// Schedules: list, show, set, pause, resume, run now, remove, next
    Schedule {
        #[command(flatten)]
        target: Target,
        #[command(subcommand)]
        command: ScheduleCommand,
    },
    /// Outboxes in a database of your own: the SQL of their tables
    Outbox {
        #[command(subcommand)]
        command: outbox::OutboxCommand,
    },
    /// Shows all queues live in the terminal: how late, how many, what comes
    Top {
        #[command(flatten)]
        command: top::TopCommand,
        #[command(flatten)]
        target: Target,
    },
    /// Tokens of a server: create, list, revoke
    Token {
        /// Writes JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(flatten)]
        arguments: token::TokenArguments,
    },
    /// Says whether a server runs: exit code 0, or 5 if it does not
    Health(health::HealthCommand),
    /// Measures a store: pushes, drains, lateness, a herd, and the raw ceiling of the same store
    Bench(bench::BenchCommand),
    /// Writes the completions of a shell to the standard output
    Completions(manual::Completions),
    /// Writes the manual page to the standard output
    Man(manual::Man),
}

/// What a command works on, and the form of its output.
#[derive(Args, Debug)]
#[command(next_help_heading = "Store or server")]
pub(crate) struct Target {
    /// The store: sqlite:FILE, redis://HOST or redis-cluster://HOSTS
    /// [default: that of `duly serve`]
    #[arg(long, value_name = "URL", global = true, conflicts_with = "server")]
    store: Option<String>,
    /// The settings file that names the store [default: duly-server.toml in the working directory]
    #[arg(
        short,
        long,
        value_name = "FILE",
        global = true,
        conflicts_with = "server"
    )]
    config: Option<PathBuf>,
    /// The server, such as http://127.0.0.1:7777; its queues are named `namespace.queue`
    #[arg(long, value_name = "URL", global = true)]
    server: Option<String>,
    /// A token of the server
    #[arg(
        long,
        value_name = "TOKEN",
        global = true,
        env = "DULY_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// The namespace, with --server, where no queue names it
    #[arg(long, value_name = "NAMESPACE", global = true, requires = "server")]
    namespace: Option<String>,
    /// Writes JSON
    #[arg(long, global = true)]
    json: bool,
}

impl Target {
    async fn open_store(&self) -> Result<Store> {
        let overrides = Overrides {
            store: self.store.clone(),
            ..Overrides::default()
        };
        let server = Settings::load(self.config.as_deref(), overrides)?;
        let mut library = duly::config::Settings::load()?;
        library.metrics.listen = None; // the port is of the programs beside it
        Store::open(&server.default_store_url(&library), library).await
    }
}

/// Runs a command; `description` is that of the whole command line.
pub(crate) async fn run(command: OperatorCommand, description: clap::Command) -> Result<()> {
    match command {
        OperatorCommand::Token { json, arguments } => {
            token::run(Output::new(json), arguments).await
        }
        OperatorCommand::Schedule { target, command } => match command {
            ScheduleCommand::Next(command) => schedule::next(Output::new(target.json), command),
            command => on(target, Work::Schedule(command)).await,
        },
        OperatorCommand::Outbox { command } => outbox::run(&command),
        OperatorCommand::Health(command) => health::run(command).await,
        OperatorCommand::Bench(command) => bench::run(command).await,
        OperatorCommand::Completions(arguments) => manual::completions(description, &arguments),
        OperatorCommand::Man(arguments) => manual::man(description, &arguments),
        OperatorCommand::Doctor { target, command } => doctor::run(&target, command).await,
        OperatorCommand::Queue { target, command } => on(target, Work::Queue(command)).await,
        OperatorCommand::Event { target, command } => on(target, Work::Event(command)).await,
        OperatorCommand::Dead { target, command } => on(target, Work::Dead(command)).await,
        OperatorCommand::Records { target, command } => on(target, Work::Records(command)).await,
        OperatorCommand::Audit { target, command } => on(target, Work::Audit(command)).await,
        OperatorCommand::Forecast { target, command } => on(target, Work::Forecast(command)).await,
        OperatorCommand::Node { target, command } => on(target, Work::Node(command)).await,
        OperatorCommand::Top { target, command } => on(target, Work::Top(command)).await,
    }
}

/// A command that works on a source.
enum Work {
    Queue(queue::QueueCommand),
    Event(event::EventCommand),
    Dead(dead::DeadCommand),
    Records(records::RecordsCommand),
    Audit(audit::AuditCommand),
    Forecast(forecast::ForecastCommand),
    Schedule(ScheduleCommand),
    Node(node::NodeCommand),
    Top(top::TopCommand),
}

async fn on(target: Target, work: Work) -> Result<()> {
    let output = Output::new(target.json);
    match &target.server {
        Some(url) => {
            let token = target.token.as_deref();
            let server = Server::new(url, token, target.namespace.clone())?;
            on_source(server, output, work).await
        }
        None => on_source(target.open_store().await?, output, work).await,
    }
}

async fn on_source<S: Source + ScheduleSource + BulkSource>(
    source: S,
    output: Output,
    work: Work,
) -> Result<()> {
    let done = match work {
        Work::Queue(command) => queue::run(&source, output, command).await,
        Work::Event(command) => event::run(&source, output, command).await,
        Work::Dead(command) => dead::run(&source, output, command).await,
        Work::Records(command) => records::run(&source, output, command).await,
        Work::Audit(command) => audit::run(&source, output, command).await,
        Work::Forecast(command) => forecast::run(&source, output, command).await,
        Work::Schedule(command) => schedule::run(&source, output, command).await,
        Work::Node(command) => node::run(&source, output, command).await,
        Work::Top(command) => top::run(&source, output, command).await,
    };
    let closed = source.close().await;
    done.and(closed)
}
