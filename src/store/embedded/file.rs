//! The store's files: made for their owner alone, never through a link, and held by one process.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
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
        let Some(name) = path.file_name() else {
            return Err(Error::invalid(format!(
                "{} names no file; name one, for example duly.db",
                path.display()
            )));
        };
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        make_directory(parent)
            .map_err(|error| unusable(parent, "cannot be made a directory", error))?;
        // The way to the directory may be a link, the files in it may not.
        let directory = parent
            .canonicalize()
            .map_err(|error| unusable(parent, "cannot be reached", error))?;
        let beside = |suffix: &str| {
            let mut name = OsString::from(name);
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
        let len = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        if len(&self.data) == 0 {
            // Once: a file that holds something was reached by a way that is on disk.
            sync_way(&self.directory)
                .map_err(|error| unusable(&self.directory, "cannot be synced", error))?;
        }
        let file = open(&self.data, OpenOptions::new().read(true).write(true))
            .map_err(|error| unusable(&self.data, "cannot be opened for writing", error))?;
        // SQLite takes an empty file for a new one, and would delete the log.
        if file.metadata().map_or(0, |found| found.len()) == 0 && len(&log::path_of(&self.data)) > 0
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
        sync_directory(&self.directory)
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
        let wrong = |error| unusable(path, "cannot be opened as the store's lock", error);
        let mut file = open(path, OpenOptions::new().read(true).write(true)).map_err(wrong)?;
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

/// Opens or creates a file for its owner alone; refuses a link in its place.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    owner_only(options);
    // `create_new` never follows a link.
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        opened => return opened,
    }
    let file = options.open(path)?;
    let (named, opened) = (path.symlink_metadata()?, file.metadata()?);
    if !named.is_file() || !same_file(&named, &opened) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a link or no plain file; the store follows no links",
        ));
    }
    Ok(file)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(directory)?.sync_all()?;
    Ok(())
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

/// Makes every directory on the way to `directory` outlive a power cut, as far as its file system
/// goes: whoever made one of them may have died, or failed, before it was synced.
fn sync_way(directory: &Path) -> io::Result<()> {
    let mut below = directory.metadata()?;
    for above in directory.ancestors().skip(1) {
        let found = above.metadata()?;
        if !same_device(&found, &below) {
            break;
        }
        below = found;
        match sync_directory(above) {
            // What may not be read was not made here.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    Ok(())
}

#[cfg(unix)]
fn owner_only(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
fn owner_only(_: &mut OpenOptions) {}

#[cfg(unix)]
fn same_file(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(unix)]
fn same_device(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    one.dev() == other.dev()
}

#[cfg(not(unix))]
fn same_device(_: &std::fs::Metadata, _: &std::fs::Metadata) -> bool {
    true
}

#[cfg(not(unix))]
fn same_file(_: &std::fs::Metadata, _: &std::fs::Metadata) -> bool {
    true
}

pub(super) fn unusable(path: &Path, what: &str, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull => ErrorKind::Full,
        io::ErrorKind::InvalidInput => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    Error::new(
        kind,
        format!(
            "{} {what}: {error}; name a file in a directory that this process may write",
            path.display()
        ),
    )
    .because(error)
}
