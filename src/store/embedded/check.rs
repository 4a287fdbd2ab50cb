//! The check of a file for damage.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::codec::wire;
use crate::error::{Error, ErrorKind, Result};
use crate::store::damage::{CheckTask, Damage, DamageKind};
use crate::store::embedded::shared::Shared;
use crate::store::embedded::{schema, sqlite};
use crate::store::future::StoreFuture;
use crate::time::Timestamp;

/// The most faults that SQLite lists of a file.
const FAULTS_MAX: u32 = 100;

impl Shared {
    /// Reads the whole file through a connection and on a thread of its own, so that nothing waits
    /// for it, and lists what was set aside.
    pub(super) fn check(self: &Arc<Self>, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        let shared = Arc::clone(self);
        StoreFuture::new(async move {
            let (response, answered) = oneshot::channel();
            let (path, counted) = (shared.paths.data.clone(), task.clone());
            std::thread::Builder::new()
                .name("duly-check".to_owned())
                .spawn(move || drop(response.send(faults(&path, &counted))))
                .map_err(|error| {
                    Error::new(ErrorKind::Unavailable, "no thread could be started").because(error)
                })?;
            let ended = |_gone| Error::new(ErrorKind::Unavailable, "the check ended half-way");
            let mut found = answered.await.map_err(ended)??;
            if shared.space.is_full() {
                found.push(Damage::new(
                    DamageKind::Settings,
                    "the disk is full and pushes are refused; make room on it",
                ));
            }
            Ok(found)
        })
    }
}

/// Returns the faults of the file at `path`.
fn faults(path: &Path, task: &CheckTask) -> Result<Vec<Damage>> {
    let connection = schema::open_reader(path)?;
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare(&format!("PRAGMA quick_check({FAULTS_MAX})"))?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    let or_fault = |error: rusqlite::Error| {
        if is_damage(&error) {
            Ok(vec![error.to_string()])
        } else {
            Err(sqlite::at_read(error))
        }
    };
    let faults = read().or_else(or_fault)?.into_iter();
    let faults = faults.filter(|fault| fault != "ok");
    let mut found: Vec<Damage> = faults
        .map(|fault| Damage::new(DamageKind::File, fault))
        .collect();
    for rows in [bodies, set_aside] {
        match rows(&connection, task) {
            Ok(damaged) => found.extend(damaged),
            Err(error) if is_damage(&error) && !found.is_empty() => {}
            Err(error) => {
                let faults = or_fault(error)?.into_iter();
                found.extend(faults.map(|fault| Damage::new(DamageKind::File, fault)));
            }
        }
    }
    Ok(found)
}

/// Returns what was set aside, the latest first.
fn set_aside(connection: &Connection, task: &CheckTask) -> rusqlite::Result<Vec<Damage>> {
    let select = "SELECT found, why, body FROM damaged ORDER BY number DESC";
    let mut statement = connection.prepare(select)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        task.add_looked(1);
        let at = Timestamp::from_millis(row.get::<_, i64>(0)?.cast_unsigned());
        let (why, body) = (row.get::<_, String>(1)?, row.get_ref(2)?);
        let damage = Damage {
            id: wire::id_in(body.as_blob().unwrap_or_default()),
            found: Some(at),
            ..Damage::new(
                DamageKind::SetAside,
                format!("was set aside at {at}: {why}"),
            )
        };
        task.list(&mut found, damage);
    }
    Ok(found)
}

/// Returns the events whose bodies do not hold their checksums, which SQLite does not know of.
fn bodies(connection: &Connection, task: &CheckTask) -> rusqlite::Result<Vec<Damage>> {
    let mut statement = connection.prepare("SELECT row, body FROM events")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        task.add_looked(1);
        let (number, body) = (row.get::<_, i64>(0)?, row.get_ref(1)?);
        let body = body.as_blob().unwrap_or_default();
        if let Err(error) = wire::decode(body) {
            let damage = Damage {
                id: wire::id_in(body),
                ..Damage::new(
                    DamageKind::Unreadable,
                    format!("has a damaged body in row {number}: {error}"),
                )
            };
            task.list(&mut found, damage);
        }
    }
    Ok(found)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseCorrupt | NotADatabase)
    )
}
