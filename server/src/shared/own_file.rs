//! The file of the state itself: its owner's alone, one server's, and still where it was.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::{Result, StateError};

/// The file, locked until this is dropped, as another server would not see its changes.
#[derive(Debug)]
pub(super) struct OwnFile {
    file: File,
    path: PathBuf,
}

impl OwnFile {
    /// Opens the file, or makes it, for its owner alone, as it has secrets.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        match file.try_lock() {
            Ok(()) => Ok(Self {
                file,
                path: path.to_owned(),
            }),
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another server uses this file; give each server its own `admin.state`, or all of \
                 them a Redis",
            )),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Fails if the path leads to no file any more, or to another one: what is written would be
    /// gone with the next start.
    pub(super) fn check(&self) -> Result<()> {
        let path = self.path.display().to_string();
        let named = match self.path.metadata() {
            Ok(named) => Some(named),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(StateError::new(&path, &error)),
        };
        let opened = self.file.metadata();
        let opened = opened.map_err(|error| StateError::new(&path, &error))?;
        if named.is_some_and(|named| is_same(&named, &opened)) {
            return Ok(());
        }
        let words = "the file is not there any more, or is another one; put it back, or start anew";
        Err(StateError::new(&path, &words))
    }
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Elsewhere a file that is open can neither be moved nor replaced.
#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}
