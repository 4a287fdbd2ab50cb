//! The check of a file for damage.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::store::StoreFuture;
use crate::store::damage::{CheckTask, Damage, DamageKind};
use crate::store::embedded::shared::Shared;
use crate::store::embedded::{schema, sqlite};

/// The most faults that SQLite lists of a file.
const FAULTS_MAX: u32 = 100;

impl Shared {
    /// Reads the whole file through a connection and on a thread of its own, so that nothing waits
    /// for it, and lists what was set aside.
    pub(super) fn check(self: &Arc<Self>, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        let shared = Arc::clone(self);
        StoreFuture::new(async move {
            let (answer, answered) = oneshot::channel();
            let (path, counted) = (shared.paths.data.clone(), task.clone());
            std::thread::Builder::new()
                .name("duly-check".to_owned())
                .spawn(move || drop(answer.send(faults(&path, &counted))))
                .map_err(|error| {
                    Error::new(ErrorKind::Unavailable, "no thread could be started").because(error)
                })?;
            let ended = |_gone| Error::new(ErrorKind::Unavailable, "the check ended half-way");
            let mut found = answered.await.map_err(ended)??;
            let aside = shared.reading.run(|reader| reader.damaged()).await?;
            task.add_looked(aside.len() as u64);
            found.extend(aside.into_iter().map(|row| Damage {
                id: row.id,
                ..Damage::new(
                    DamageKind::SetAside,
                    format!("was set aside at {}: {}", row.found, row.why),
                )
            }));
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
    let read = || -> rusqlite::Result<(Vec<String>, u64)> {
        let mut statement = connection.prepare(&format!("PRAGMA quick_check({FAULTS_MAX})"))?;
        let faults = statement.query_map([], |row| row.get(0))?;
        let events = "SELECT count(*) FROM events";
        Ok((
            faults.collect::<rusqlite::Result<_>>()?,
            connection
                .query_row(events, [], |row| row.get::<_, i64>(0))?
                .cast_unsigned(),
        ))
    };
    let faults = match read() {
        Ok((faults, events)) => {
            task.add_looked(events);
            faults
        }
        Err(error) if is_damage(&error) => vec![error.to_string()],
        Err(error) => return Err(sqlite::at_read(error)),
    };
    let faults = faults.into_iter().filter(|fault| fault != "ok");
    Ok(faults
        .map(|fault| Damage::new(DamageKind::File, fault))
        .collect())
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseCorrupt | NotADatabase)
    )
}
