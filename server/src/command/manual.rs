//! `duly completions` and `duly man`: what a shell completes, and the manual.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

use super::error::{CommandError, Result};

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// A folder, made if it is missing, for a page of each command, instead of the first page on the standard output
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Writes the completions of a shell.
pub(crate) fn completions(mut command: Command, arguments: &Completions) -> Result<()> {
    let mut bytes = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "duly", &mut bytes);
    Ok(std::io::stdout().lock().write_all(&bytes)?)
}

/// Writes the manual.
pub(crate) fn man(command: Command, arguments: &Man) -> Result<()> {
    match &arguments.folder {
        None => {
            let mut bytes = Vec::new();
            clap_mangen::Man::new(command).render(&mut bytes)?;
            Ok(std::io::stdout().lock().write_all(&bytes)?)
        }
        Some(folder) => write_all(command, folder),
    }
}

fn write_all(command: Command, folder: &Path) -> Result<()> {
    let written = std::fs::create_dir_all(folder);
    let written = written.and_then(|()| clap_mangen::generate_to(command, folder));
    written.map_err(|error| {
        CommandError::failed(format!(
            "the pages cannot be written to {}: {error}",
            folder.display()
        ))
    })
}
