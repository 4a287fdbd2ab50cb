//! Files made for their owner alone, never through a link, and found again after a power cut.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::shortage::Shortage;

/// Makes the directory of the file where it is missing; returns where it is, and the file's name.
///
/// `example` is a name for a file, told to whoever named none.
pub(crate) fn prepare(path: &Path, example: &str) -> Result<(PathBuf, OsString)> {
    let Some(name) = path.file_name() else {
        return Err(Error::invalid(format!(
            "{} names no file; name one, for example {example}",
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
    Ok((directory, name.to_owned()))
}

/// Creates a file for its owner alone where there is none; refuses a link in its place.
///
/// One that is there is not opened: SQLite's locks on it, which are those of the whole process, go
/// when any descriptor of it is closed.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    // Nobody opens it before it is closed here.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let mut options = OpenOptions::new();
    owner_only(&mut options);
    match options.write(true).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        opened => return opened.map(drop),
    }
    if path.symlink_metadata()?.is_file() {
        Ok(())
    } else {
        Err(no_plain_file())
    }
}

fn no_plain_file() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is a link or no plain file; links are not followed",
    )
}

/// Opens or creates a file for its owner alone; refuses a link in its place.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    owner_only(options);
    // `create_new` never follows a link.
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        opened => return opened,
    }
    let file = options.open(path)?;
    let (named, opened) = (path.symlink_metadata()?, file.metadata()?);
    if !named.is_file() || !same_file(&named, &opened) {
        return Err(no_plain_file());
    }
    Ok(file)
}

/// Where SQLite's log of the file at `data` lies, and its index of that, which connections share.
pub(crate) fn log_and_index(data: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|suffix| {
        let mut path = OsString::from(data);
        path.push(suffix);
        PathBuf::from(path)
    })
}

/// Whether `path` leads to `file`, or it cannot be told.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    match (path.symlink_metadata(), file.metadata()) {
        (Ok(named), Ok(opened)) => same_file(&named, &opened),
        (Err(error), _) => error.kind() != io::ErrorKind::NotFound,
        (Ok(_), Err(_)) => true,
    }
}

/// How many bytes a file has; 0 where there is none.
pub(crate) fn len(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

/// How many bytes the file system of `file` has free for this user, where it says so.
pub(crate) fn free_bytes(file: &File) -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let found = rustix::fs::fstatvfs(file).ok()?;
        // Some that are not on a disk say nothing of it.
        (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        None
    }
}

/// Makes what was created, renamed or removed in `directory` outlive a power cut.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(directory)?.sync_all()?;
    Ok(())
}

/// Makes every directory on the way to `directory` outlive a power cut, as far as its file system
/// goes: whoever made one of them may have died, or failed, before it was synced.
pub(crate) fn sync_way(directory: &Path) -> io::Result<()> {
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

/// What an error of the file system means.
pub(crate) fn unusable(path: &Path, what: &str, error: io::Error) -> Error {
    let (kind, advice) = match (error.kind(), Shortage::of_io(&error)) {
        (_, Some(Shortage::Space)) => (
            ErrorKind::Full,
            "make room, or raise the limit, and try again",
        ),
        (_, Some(Shortage::Process)) => (
            ErrorKind::Unavailable,
            "raise the limits of this process, or try again when it uses less",
        ),
        (io::ErrorKind::InvalidInput, None) => (ErrorKind::Invalid, WRITABLE),
        _ => (ErrorKind::Unavailable, WRITABLE),
    };
    let at = path.display();
    Error::new(kind, format!("{at} {what}: {error}; {advice}")).because(error)
}

const WRITABLE: &str = "name a file in a directory that this process may write";

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

#[cfg(not(unix))]
fn same_file(_: &std::fs::Metadata, _: &std::fs::Metadata) -> bool {
    true
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
