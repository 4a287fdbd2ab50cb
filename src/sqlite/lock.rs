//! The lock on a data file itself: whichever name leads to it, one store has it.
//!
//! SQLite's own locks on the file are of the process, and go when *any* descriptor of the file is
//! closed in it. So a file that is open here is known by its number, and refused before it is
//! opened a second time.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::files;

/// The data files that this process has locked.
static LOCKED: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

/// Which file it is, whatever it is called: its device and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn of(file: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        Some(Self(file.dev(), file.ino()))
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Option<Self> {
        None
    }

    /// The file that `path` leads to; `None` where there is none, or it cannot be told.
    fn at(path: &Path) -> Option<Self> {
        Self::of(&path.symlink_metadata().ok()?)
    }
}

/// A data file, open and locked; the kernel takes the lock back when the process dies.
#[derive(Debug)]
pub(crate) struct LockedFile {
    /// There until it is dropped.
    file: Option<File>,
    path: PathBuf,
    identity: Option<Identity>,
}

impl LockedFile {
    /// Opens or creates the file at `path`, and locks it.
    ///
    /// # Errors
    ///
    /// Unavailable when somebody has locked it, also by another name, when it has several names, or
    /// when it cannot be opened for writing.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let wrong = |error| files::unusable(path, "cannot be opened for writing", error);
        // Held to the end, so that no two threads open one file.
        let mut locked = locked();
        if Identity::at(path).is_some_and(|file| locked.contains(&file)) {
            return Err(in_use(path, "by this process"));
        }
        let file = files::open(path, OpenOptions::new().read(true).write(true)).map_err(wrong)?;
        lock(&file, path)?;
        let found = file.metadata().map_err(wrong)?;
        if let names @ 2.. = links(&found) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{} has {names} names (hard links), and its write-ahead log lies beside one of \
                     them; remove the others, or copy the file",
                    path.display()
                ),
            ));
        }
        let identity = Identity::of(&found);
        locked.extend(identity);
        Ok(Self {
            file: Some(file),
            path: path.to_owned(),
            identity,
        })
    }

    /// Returns what is wrong when its path does not lead to it any more.
    pub(crate) fn moved(&self) -> Option<String> {
        leads_elsewhere(&self.path, self.identity)
    }

    /// Its length; `None` where it cannot be told.
    pub(crate) fn len(&self) -> Option<u64> {
        Some(self.file.as_ref()?.metadata().ok()?.len())
    }

    /// Returns what is wrong when it has become shorter than `before`.
    pub(crate) fn cut(&self, before: u64) -> Option<String> {
        let len = self.len().filter(|len| *len < before)?;
        let path = self.path.display();
        let words = format!("{path} was cut from {before} to {len} bytes while it was open");
        Some(words)
    }
}

/// Files that are open, each with the path that led to it.
#[derive(Debug, Default)]
pub(crate) struct Watched(Vec<(PathBuf, Option<Identity>)>);

impl Watched {
    /// What these paths lead to now; one that leads to nothing is not watched.
    pub(crate) fn at<const N: usize>(paths: [PathBuf; N]) -> Self {
        let files = paths.map(|path| {
            let found = Identity::at(&path);
            (path, found)
        });
        Self(files.into())
    }

    /// Returns what is wrong when a path does not lead to its file any more.
    pub(crate) fn moved(&self) -> Option<String> {
        let mut files = self.0.iter();
        files.find_map(|(path, identity)| leads_elsewhere(path, *identity))
    }
}

/// Returns what is wrong when `path` does not lead to the file `identity` any more.
fn leads_elsewhere(path: &Path, identity: Option<Identity>) -> Option<String> {
    let identity = identity?;
    let what = match path.symlink_metadata() {
        Ok(found) if Identity::of(&found) == Some(identity) => return None,
        Ok(_) => "was replaced by another file",
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "was deleted or moved",
            _ => return None, // it cannot be told
        },
    };
    Some(format!("{} {what} while it was open", path.display()))
}

impl Drop for LockedFile {
    /// Gives the lock back by name: a child process that is just being started has a copy of the
    /// open file, with which the lock would outlive this.
    fn drop(&mut self) {
        let mut locked = locked();
        if let Some(file) = self.file.take() {
            let _ = file.unlock(); // the kernel does it otherwise, a little later
        }
        // Only when it is closed: that would take the locks of whoever opened it meanwhile.
        if let Some(identity) = &self.identity {
            locked.remove(identity);
        }
    }
}

/// Elsewhere such a lock would keep SQLite itself out.
#[cfg(target_os = "linux")]
fn lock(file: &File, path: &Path) -> Result<()> {
    use std::fs::TryLockError;
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(in_use(path, "by another process, or under another name"))
        }
        Err(TryLockError::Error(error)) => Err(files::unusable(path, "cannot be locked", error)),
    }
}

#[cfg(not(target_os = "linux"))]
fn lock(_: &File, _: &Path) -> Result<()> {
    Ok(())
}

/// The error for a file that a store has open, with who that is.
pub(crate) fn in_use(path: &Path, owner: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "{} is open already, {owner}; a store has one process: close it there first, or use a \
             Redis store for several",
            path.display()
        ),
    )
}

#[cfg(unix)]
fn links(file: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(file)
}

#[cfg(not(unix))]
fn links(_: &Metadata) -> u64 {
    1
}

fn locked() -> MutexGuard<'static, BTreeSet<Identity>> {
    LOCKED.lock()
}
