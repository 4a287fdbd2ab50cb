//! The program `duly`: a server of delayed jobs over HTTP, and the commands of its operator.

mod cli;
mod command;
mod demo;
#[cfg(test)]
mod documented;
mod signals;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use duly_server::{Server, Settings, log, with_causes};

use crate::cli::{Arguments, Command, Serve};
use crate::command::{CommandError, OperatorCommand, said};
use crate::signals::{SignalAction, Signals};

/// A fifth of a request goes into memory with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The longest text about wrong arguments, in bytes.
const REFUSAL_MAX: usize = 2_000;
/// How long the end waits for what blocks a thread, such as a file that cannot be read or a name
/// that nobody knows: everything that matters is awaited before.
const BLOCKED_MAX: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let Arguments { command } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    match command {
        Command::Serve(arguments) => match serve(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                report(&*error);
                ExitCode::FAILURE
            }
        },
        Command::Demo(arguments) => match demonstrate(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                report(&*error);
                ExitCode::FAILURE
            }
        },
        Command::Operator(command) => match operate(*command) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if error.is_broken_pipe => ExitCode::SUCCESS,
            Err(error) => {
                report(&error);
                error.failure.exit_code()
            }
        },
    }
}

/// Says what is wrong with the arguments, which may quote them, in a bounded text; or shows the help
/// that was asked for.
fn refuse(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if !error.use_stderr() || text.len() <= REFUSAL_MAX {
        error.exit();
    }
    let end = text.floor_char_boundary(REFUSAL_MAX);
    said(&format!(
        "{}...\n\nFor more information, try '--help'.",
        &text[..end]
    ));
    ExitCode::from(2) // as clap's
}

/// Runs a command of an operator.
fn operate(command: OperatorCommand) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failed(format!("the runtime does not start: {error}")))?;
    let result = runtime.block_on(command::run(command, Arguments::command()));
    runtime.shutdown_timeout(BLOCKED_MAX);
    result
}

/// Says why the program ends; the log may not run yet.
fn report(error: &dyn std::error::Error) {
    let text = format!("duly: {error}");
    said(&with_causes(text, error));
}

fn demonstrate(arguments: demo::Demo) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(demo::run(arguments));
    runtime.shutdown_timeout(BLOCKED_MAX);
    result
}

fn serve(arguments: Serve) -> Result<(), Box<dyn std::error::Error>> {
    let stops_with_stdin = arguments.stop_with_stdin;
    let settings = arguments.settings()?;
    let _log = log::start(&settings.log);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(run(settings, stops_with_stdin));
    runtime.shutdown_timeout(BLOCKED_MAX);
    result
}

/// Runs a server until it is told to stop.
async fn run(settings: Settings, stops_with_stdin: bool) -> Result<(), Box<dyn std::error::Error>> {
    let mut signals = Signals::listen()?;
    if stops_with_stdin {
        signals = signals.and_end_of_input()?;
    }
    let start = Server::start(settings);
    tokio::pin!(start);
    let server = loop {
        tokio::select! {
            server = &mut start => break server?,
            action = signals.next() => match action {
                SignalAction::Stop => return Ok(()),
                SignalAction::Reload => {} // it reads everything just now
            },
        }
    };
    signals.reload_until_stop(|| server.reload()).await;
    server.stop().await;
    Ok(())
}
