//! The kind and format of a SQLite file, and the classification of errors while it is opened.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::shortage::{self, Shortage};

/// One kind of file.
#[derive(Debug)]
pub(crate) struct Kind {
    /// What it is called, as in "not a store of duly".
    pub(crate) name: &'static str,
    /// The application id in its header.
    pub(crate) application: i64,
    /// The format that this duly reads and writes; the first is 1.
    pub(crate) format: i64,
}

/// Whether the file was opened for reading only, asked by a statement that writes to a table, and
/// writes nothing: the function for it has another argument in each of the versions that are allowed,
/// and a transaction that is to write begins as one that reads. One without tables refuses its first.
fn is_read_only(connection: &Connection) -> rusqlite::Result<bool> {
    let table = "SELECT replace(name, '\"', '\"\"') FROM sqlite_master \
                 WHERE type = 'table' AND name NOT LIKE 'sqlite%' LIMIT 1";
    let table = connection.query_row(table, [], |row| row.get::<_, String>(0));
    let writes = |table| connection.execute(&format!("DELETE FROM \"{table}\" WHERE 0"), []);
    match table.and_then(writes) {
        Ok(_) | Err(rusqlite::Error::QueryReturnedNoRows) => Ok(false),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => Ok(true),
        Err(error) => Err(error),
    }
}

impl Kind {
    /// Opens the file, which nothing is written to yet.
    pub(crate) fn connect(&self, path: &Path, access: OpenFlags) -> Result<Connection> {
        shortage::survive_file_limit();
        // NOFOLLOW: a symbolic link in place of the file is not ours. NO_MUTEX: one thread each.
        let flags = access | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let wrong = |error| self.at_open(path, error);
        let connection = Connection::open_with_flags(path, flags).map_err(wrong)?;
        checkpoint_on_close(&connection, false).map_err(wrong)?;
        // SQLite tries to open it for reading where it cannot for writing, whatever the reason was.
        let writes = access.contains(OpenFlags::SQLITE_OPEN_READ_WRITE);
        if writes && is_read_only(&connection).map_err(wrong)? {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{} cannot be opened for writing; check its permissions and the limits of this \
                     process, then try again",
                    path.display()
                ),
            ));
        }
        Ok(connection)
    }

    /// Whether the file has tables of the format that is known; not when it is empty.
    ///
    /// Nothing is written before this: a file of somebody else stays as it is.
    pub(crate) fn identify(&self, connection: &Connection, path: &Path) -> Result<bool> {
        let pragma = |name: &str| -> Result<i64> {
            connection
                .query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
                .map_err(|error| self.at_open(path, error))
        };
        let (at, name) = (path.display(), self.name);
        if pragma("page_count")? == 0 {
            // Looked at after SQLite has undone a creation that was interrupted. A file that
            // another process has just begun has its first page when SQLite is asked again.
            if std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
                && pragma("page_count")? == 0
            {
                return Err(Error::corrupt(format!(
                    "{at} is too short to be a {name}: it was cut, or is another program's; \
                     restore it, or name another file"
                )));
            }
            return Ok(false);
        }
        let (application, format) = (pragma("application_id")?, pragma("user_version")?);
        if application == 0 && format == 0 && pragma("schema_version")? == 0 {
            return Ok(false); // its creation was interrupted before the first table
        }
        if application != self.application {
            return Err(Error::corrupt(format!(
                "{at} is a SQLite file of another program, or another kind of file of duly \
                 (application id {application:#010x}), or its header is damaged; name a file of \
                 its own for the {name}"
            )));
        }
        let known = self.format;
        if format > known {
            return Err(Error::corrupt(format!(
                "{at} was written by a newer duly (format {format}), this one reads format {known}; \
                 upgrade duly to open it"
            )));
        }
        if format < 1 {
            return Err(Error::corrupt(format!(
                "{at} says that it has format {format}, the first is 1: its header is damaged"
            )));
        }
        if format < known {
            return Err(Error::corrupt(format!(
                "{at} was written by an older duly (format {format}), this one reads format {known} \
                 and upgrades none before the first release; name another file, or open it with \
                 the duly that wrote it"
            )));
        }
        Ok(true)
    }

    /// What an error means while the file is opened.
    pub(crate) fn at_open(&self, path: &Path, error: rusqlite::Error) -> Error {
        let short = Shortage::of_sqlite(&error);
        let (at, name) = (path.display(), self.name);
        let (kind, what) = match error.sqlite_error_code() {
            _ if short == Some(Shortage::Process) => (
                ErrorKind::Unavailable,
                format!(
                    "{at} could not be opened, as this process has too few descriptors or too \
                     little memory; raise its limits, or try again when it uses less"
                ),
            ),
            Some(ErrorCode::NotADatabase) => (
                ErrorKind::Corrupt,
                format!(
                    "{at} is not a {name} of duly, or its header is damaged; name another file"
                ),
            ),
            _ if short == Some(Shortage::Space) => (
                ErrorKind::Full,
                format!(
                    "there is no room for {at}: its disk is full, or a quota or the limit on the \
                     size of a file is reached; make room and open it again"
                ),
            ),
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
                ErrorKind::Unavailable,
                format!(
                    "{at} cannot be opened for writing; check the directory and its permissions"
                ),
            ),
            Some(ErrorCode::SystemIoFailure) if is_cut(&error) => (
                ErrorKind::Corrupt,
                format!("{at} ends within a page: it was cut; restore it, or name another file"),
            ),
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::OutOfMemory,
            ) => (
                ErrorKind::Unavailable,
                format!(
                    "{at} could not be opened; look at the disk and the memory, then try again"
                ),
            ),
            // Also what no statement of ours can be wrong about but in a file that says other than
            // it did: of its tables, their columns, its version.
            _ => (
                ErrorKind::Corrupt,
                format!(
                    "{at} is damaged and cannot be opened; restore it, or recover it with \
                     `sqlite3 {at} .recover`"
                ),
            ),
        };
        Error::new(kind, what).because(error)
    }
}

/// Whether a page could be read in part alone, as the file ends there.
fn is_cut(error: &rusqlite::Error) -> bool {
    const IOERR_SHORT_READ: i32 = 522;
    error
        .sqlite_error()
        .is_some_and(|error| error.extended_code == IOERR_SHORT_READ)
}

/// Whether SQLite copies the log into the file by itself when `connection` is closed: not into a
/// file of which nobody knows yet whose it is, and not by one that stopped itself in doubt.
pub(crate) fn checkpoint_on_close(connection: &Connection, does: bool) -> rusqlite::Result<()> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !does)
        .map(drop)
}
