//! The store's files: made for their owner alone, never through a link, and held by one process.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::files;
use crate::sqlite::lock::{self, LockedFile, Watched};
use crate::sqlite::shortage::Shortage;
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

    /// Makes the data file where it is missing, and locks it.
    fn claim_data(&self) -> Result<LockedFile> {
        let is_empty = || files::len(&self.data) == 0;
        if is_empty() {
            // Once: a file that holds something was reached by a way that is on disk.
            files::sync_way(&self.directory)
                .map_err(|error| files::unusable(&self.directory, "cannot be synced", error))?;
        }
        let file = LockedFile::take(&self.data)?;
        // SQLite takes an empty file for a new one, and would delete the log.
        if is_empty() && files::len(&log::path_of(&self.data)) > 0 {
            return Err(Error::corrupt(format!(
                "{} is empty, but its write-ahead log is not: the file was cut; restore it",
                self.data.display()
            )));
        }
        Ok(file)
    }

    /// Makes what was created, renamed or removed in the directory outlive a power cut.
    pub(super) fn sync_directory(&self) -> io::Result<()> {
        files::sync_directory(&self.directory)
    }
}

/// The locks on a store: on the data file, so that no other name of it opens a second one, and on
/// the file beside it, which says who has it and stays where a data file is replaced.
#[derive(Debug)]
pub(super) struct Lock {
    /// Unlocked first.
    data: LockedFile,
    /// How long it was when it was looked at last; only the writer's checkpoints make it shorter.
    len: u64,
    /// SQLite's log and index, once it has made them.
    beside: Watched,
    #[expect(dead_code, reason = "it is held")]
    name: NameLock,
}

impl Lock {
    /// Takes the locks of the store in `paths`, whose data file is made where it is missing.
    pub(super) fn take(paths: &Paths) -> Result<Self> {
        let path = &paths.lock;
        let wrong = |error| files::unusable(path, "cannot be opened as the store's lock", error);
        let file = files::open(path, OpenOptions::new().read(true).write(true)).map_err(wrong)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = file.take(32).read_to_string(&mut owner); // only to say who it is
                let owner = match owner.trim() {
                    "" => "by another process".to_owned(),
                    number => format!("by process {number}"),
                };
                return Err(lock::in_use(&paths.data, &owner));
            }
            Err(TryLockError::Error(error)) => return Err(wrong(error)),
        }
        let name = NameLock(file);
        let data = paths.claim_data()?;
        let pid = format!("{}\n", std::process::id());
        // It only says who it is, and may be written when the disk is full.
        let file = &name.0;
        let said = file
            .set_len(0)
            .and_then(|()| (&*file).write_all(pid.as_bytes()));
        match said.map_err(|error| (Shortage::of_io(&error), error)) {
            Ok(()) | Err((Some(_), _)) => {}
            Err((None, error)) => return Err(wrong(error)),
        }
        Ok(Self {
            data,
            len: 0,
            beside: Watched::default(),
            name,
        })
    }

    /// Remembers which files SQLite writes beside the data file.
    ///
    /// # Errors
    ///
    /// When the path of one does not lead to it any more.
    pub(super) fn remember(&mut self, paths: &Paths) -> Result<()> {
        self.beside = Watched::at(files::log_and_index(&paths.data));
        self.moved()
            .map_or(Ok(()), |what| Err(Error::new(ErrorKind::Unavailable, what)))
    }

    /// Returns what is wrong when the path of a file does not lead to it any more: what is written
    /// to it then is gone when the store stops. Or when the data file was cut.
    pub(super) fn moved(&mut self) -> Option<String> {
        let wrong = self.data.moved().or_else(|| self.beside.moved());
        let wrong = wrong.or_else(|| self.data.cut(self.len));
        self.copied();
        wrong
    }

    /// A checkpoint may have changed the length of the data file.
    pub(super) fn copied(&mut self) {
        self.len = self.data.len().unwrap_or(0);
    }
}

/// The lock on the file that is named after the store.
#[derive(Debug)]
struct NameLock(File);

impl Drop for NameLock {
    /// Gives it back by name: a child process that is just being started has a copy of the open
    /// file, with which the lock would outlive this.
    fn drop(&mut self) {
        let _ = self.0.unlock(); // the kernel does it otherwise, a little later
    }
}
