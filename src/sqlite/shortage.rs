//! Shortages of the disk and of the process: errors after which nothing is in doubt.
//!
//! A call that was refused for want of something has done nothing, or a part that counts for
//! nothing until the rest is there; it can be made again. A sync is the exception: what it did not
//! bring to disk may be lost for good, whatever it says was missing.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::panics;

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Room: on the disk, in a quota, or below the limit on the size of a file.
    Space,
    /// Something of the process: descriptors, memory, threads.
    Process,
}

impl Shortage {
    /// Returns what an error of the file system says there is too little of; `None` for any other.
    pub(crate) fn of_io(error: &io::Error) -> Option<Self> {
        use io::ErrorKind::{
            FileTooLarge, OutOfMemory, QuotaExceeded, ResourceBusy, StorageFull, WouldBlock,
        };
        match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Some(Self::Space),
            OutOfMemory | WouldBlock | ResourceBusy => Some(Self::Process),
            _ => error
                .raw_os_error()
                .filter(|number| NO_DESCRIPTOR.contains(number))
                .map(|_| Self::Process),
        }
    }

    /// Returns what an error of SQLite says there is too little of; `None` for any other.
    ///
    /// SQLite keeps the number of the system's error to itself, so it is read where the system
    /// keeps it for the thread: call this before anything else.
    pub(crate) fn of_sqlite(error: &rusqlite::Error) -> Option<Self> {
        let system = io::Error::last_os_error();
        let error = error.sqlite_error()?;
        match (error.code, error.extended_code) {
            (ErrorCode::DiskFull, _) => Some(Self::Space),
            (ErrorCode::OutOfMemory, _) | (_, ffi::SQLITE_IOERR_NOMEM) => Some(Self::Process),
            (_, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => None,
            (ErrorCode::SystemIoFailure, code) if REFUSED.contains(&code) => Self::of_io(&system),
            (ErrorCode::CannotOpen, _) => Self::of_io(&system),
            _ => None,
        }
    }
}

/// `ENFILE` and `EMFILE`, which have no kind of their own.
const NO_DESCRIPTOR: [i32; 2] = [23, 24];

/// Calls of SQLite that do nothing when they are refused.
const REFUSED: [i32; 9] = [
    ffi::SQLITE_IOERR_WRITE,
    ffi::SQLITE_IOERR_TRUNCATE,
    ffi::SQLITE_IOERR_FSTAT,
    ffi::SQLITE_IOERR_LOCK,
    ffi::SQLITE_IOERR_RDLOCK,
    ffi::SQLITE_IOERR_SHMOPEN,
    ffi::SQLITE_IOERR_SHMSIZE,
    ffi::SQLITE_IOERR_SHMLOCK,
    ffi::SQLITE_IOERR_SHMMAP,
];

/// Makes a write beyond the limit on the size of a file an error, as one on a full disk is.
///
/// The system sends a signal for it as well, which ends the process unless somebody handles it. A
/// handler of the program is called as before.
pub(crate) fn survive_file_limit() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        #[cfg(unix)]
        {
            use signal_hook::consts::SIGXFSZ;
            let seen = Arc::new(AtomicBool::new(false));
            if let Err(error) = signal_hook::flag::register(SIGXFSZ, seen) {
                panics::reported(|| {
                    tracing::warn!(%error, "a write beyond the limit on file sizes ends this process");
                });
            }
        }
    });
}

/// How many bytes a file of this process may have, if there is a limit.
pub(crate) fn file_limit() -> Option<u64> {
    #[cfg(target_os = "linux")]
    return rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_numbers_of_the_system_say_what_is_short_and_what_is_in_doubt() {
        let of = |number| Shortage::of_io(&io::Error::from_raw_os_error(number));
        // ENOSPC, EFBIG; EAGAIN, ENOMEM, ENFILE, EMFILE; EIO, EACCES, EROFS.
        assert_eq!([28, 27].map(of), [Some(Shortage::Space); 2]);
        assert_eq!([11, 12, 23, 24].map(of), [Some(Shortage::Process); 4]);
        assert_eq!([5, 13, 30].map(of), [None; 3]);
        #[cfg(target_os = "linux")]
        assert_eq!(of(122), Some(Shortage::Space), "EDQUOT");
    }

    #[test]
    fn a_failed_sync_is_never_a_shortage() {
        let failed = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC] {
            assert_eq!(Shortage::of_sqlite(&failed(code)), None);
        }
        let full = failed(ffi::SQLITE_FULL);
        assert_eq!(Shortage::of_sqlite(&full), Some(Shortage::Space));
        let memory = failed(ffi::SQLITE_IOERR_NOMEM);
        assert_eq!(Shortage::of_sqlite(&memory), Some(Shortage::Process));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_call_that_was_refused_is_short_of_what_the_system_says_and_of_nothing_else() {
        use std::fs::File;
        use std::io::{Read, Write};

        // Each leaves its number where SQLite's call would have left it.
        let no_room = || {
            let full = File::options().write(true).open("/dev/full");
            let written = full.expect("a full disk").write(b"1");
            assert_eq!(written.expect_err("no room").raw_os_error(), Some(28));
        };
        let broken = || {
            let memory = File::open("/proc/self/mem").and_then(|mut file| file.read(&mut [0]));
            let error = memory.expect_err("there is nothing at address 0");
            assert_eq!(error.raw_os_error(), Some(5));
        };
        let absent = || assert!(File::open("/proc/self/absent").is_err());
        let of = |code, fails: &dyn Fn()| {
            let failed = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            fails();
            Shortage::of_sqlite(&failed)
        };
        for code in REFUSED.into_iter().chain([ffi::SQLITE_CANTOPEN]) {
            assert_eq!(of(code, &no_room), Some(Shortage::Space), "{code}");
            assert_eq!(of(code, &broken), None, "{code}");
            assert_eq!(of(code, &absent), None, "{code}");
        }
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_READ] {
            assert_eq!(of(code, &no_room), None, "{code}");
        }
    }
}
