//! The journal's file: made for its owner alone.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::sqlite::files;

/// Makes the file, and the directories on its way, where they are missing; returns where it is.
pub(super) fn prepare(path: &Path) -> Result<PathBuf> {
    let (directory, name) = files::prepare(path, "journal.db")?;
    let path = directory.join(name);
    let is_new = files::len(&path) == 0;
    files::create(&path)
        .map_err(|error| files::unusable(&path, "cannot be opened for writing", error))?;
    if is_new {
        // So that the file is found after a power cut as well as what is in it. Once: a file that
        // holds something was reached by a way that is on disk.
        files::sync_directory(&directory)
            .and_then(|()| files::sync_way(&directory))
            .map_err(|error| files::unusable(&directory, "cannot be synced", error))?;
    }
    Ok(path)
}
