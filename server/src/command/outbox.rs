//! `duly outbox`: the tables of an outbox in a database of a program's.

use std::io::Write;

use clap::Subcommand;
use duly_outbox::{Database, schema};

use super::error::Result;

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Writes the SQL of the tables, which may be run again at any time, to the standard output
    Schema {
        /// The database: postgres, sqlite or mysql, which is that of MariaDB, too
        #[arg(long, value_name = "DATABASE")]
        database: Database,
    },
}

/// Runs a command.
pub(super) fn run(command: &OutboxCommand) -> Result<()> {
    let OutboxCommand::Schema { database } = command;
    Ok(std::io::stdout()
        .lock()
        .write_all(schema(*database).as_bytes())?)
}
