//! The program `duly`: a server of delayed jobs over HTTP.

mod cli;

use std::process::ExitCode;

use clap::Parser;
use duly_server::{Server, log};

use crate::cli::{Arguments, Command};

/// A fifth of a request goes into memory with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&*error);
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stderr)] // the log may not run yet, and this is a program's last word
fn report(error: &dyn std::error::Error) {
    eprintln!("duly: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
}

fn run(command: Command) -> Result<(), Box<dyn std::error::Error>> {
    let Command::Serve(arguments) = command;
    let settings = arguments.settings()?;
    log::start(&settings.log);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let server = Server::start(settings).await?;
        cli::stop_signal().await?;
        server.stop().await;
        Ok(())
    })
}
