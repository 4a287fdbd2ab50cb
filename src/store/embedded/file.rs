//! The store's files: made for their owner alone, never through a link, and held by one process.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::files;
use crate::store::embedded::log;

/// Where everything lies: the file that was named, and its companions beside it.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    pub(super) directory: PathBuf,
    /// The SQLite file. SQLite itself adds `-wal` and `-shm`.
    pub(super) data: PathBuf,
    /// Whose lock says that the store is open.
    pub(super) lock: PathBuf,
    /// Which handlers have started.
    pub(super) starts: PathBuf,
    /// Room for the time when there is none.
    pub(super) reserve: PathBuf,
}

impl Paths {
    /// Makes the directory where it is missing, and names the files in it.
    pub(super) fn prepare(path: &Path) -> Result<Self> {
        let (directory, name) = files::prepare(path, "duly.db")?;
        let beside = |suffix: &str| {
            let mut name = OsString::from(&name);
            name.push(suffix);
            directory.join(name)
        };
        Ok(Self {
            data: beside(""),
            lock: beside("-lock"),
            starts: beside("-starts"),
            reserve: beside("-reserve"),
            directory,
        })
    }

    /// Makes the data file where it is missing.
    pub(super) fn claim_data(&self) -> Result<()> {
        if files::len(&self.data) == 0 {
            // Once: a file that holds something was reached by a way that is on disk.
            files::sync_way(&self.directory)
                .map_err(|error| files::unusable(&self.directory, "cannot be synced", error))?;
        }
        let file = files::open(&self.data, OpenOptions::new().read(true).write(true))
            .map_err(|error| files::unusable(&self.data, "cannot be opened for writing", error))?;
        // SQLite takes an empty file for a new one, and would delete the log.
        if file.metadata().map_or(0, |found| found.len()) == 0
            && files::len(&log::path_of(&self.data)) > 0
        {
            return Err(Error::corrupt(format!(
                "{} is empty, but its write-ahead log is not: the file was cut; restore it",
                self.data.display()
            )));
        }
        Ok(())
    }

    /// Makes what was created, renamed or removed in the directory outlive a power cut.
    pub(super) fn sync_directory(&self) -> io::Result<()> {
        files::sync_directory(&self.directory)
    }
}

/// The lock on a store; the kernel takes it back when the process dies.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of the store in `paths`.
    pub(super) fn take(paths: &Paths) -> Result<Self> {
        let path = &paths.lock;
        let wrong = |error| files::unusable(path, "cannot be opened as the store's lock", error);
        let mut file =
            files::open(path, OpenOptions::new().read(true).write(true)).map_err(wrong)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = file.take(32).read_to_string(&mut owner); // only to say who it is
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!(
                        "{} is open already, by process {}; a store has one process: close it \
                         there first, or use a Redis store for several",
                        paths.data.display(),
                        if owner.trim().is_empty() {
                            "unknown"
                        } else {
                            owner.trim()
                        }
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(wrong(error)),
        }
        let pid = format!("{}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.write_all(pid.as_bytes()))
            .map_err(wrong)?;
        Ok(Self { file })
    }
}

impl Drop for Lock {
    /// Gives it back by name: a child process that is just being started has a copy of the open
    /// file, with which the lock would outlive this.
    fn drop(&mut self) {
        let _ = self.file.unlock(); // the kernel does it otherwise, a little later
    }
}
