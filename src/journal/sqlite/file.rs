//! The journal's file: made for its owner alone.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::journal::sqlite::fault;

/// Makes the file, and the directories on its way, where they are missing; answers where it is.
pub(super) fn prepare(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        let told = format!(
            "{} names no file; name one, for example journal.db",
            path.display()
        );
        return Err(Error::invalid(told));
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make_directory(parent)
        .map_err(|error| fault::of_files(parent, "cannot be made a directory", error))?;
    // The way to the directory may be a link, the file may not.
    let directory = parent
        .canonicalize()
        .map_err(|error| fault::of_files(parent, "cannot be reached", error))?;
    let path = directory.join(name);
    match owner_only().write(true).create_new(true).open(&path) {
        Ok(_) => {
            // So that the file is found after a power cut as well as what is in it.
            let synced = File::open(&directory).and_then(|directory| directory.sync_all());
            synced.map_err(|error| fault::of_files(&directory, "cannot be synced", error))?;
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(fault::of_files(&path, "cannot be made", error)),
    }
    Ok(path)
}

fn make_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn owner_only() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
