//! The raw ceiling: the same work as plain commands of the store, without a library.
//!
//! It keeps an id and a body of each event, ordered by due time, and nothing else: no attempts, no
//! leases, no records.

use tokio::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use rusqlite::{Connection, params};

use super::load::{BATCH, IN_FLIGHT, payload, per_second};
use super::place::{Place, Raw, wrong};
use crate::command::error::{CommandError, Result};

/// Over how many keys the events are spread in a cluster.
const PARTS: usize = 16;

/// The raw store.
pub(super) enum Ceiling {
    File(Connection),
    /// Each pair of keys lies on one server of a cluster.
    Redis(Raw, Vec<[String; 2]>),
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` passes it
fn wrong_file(error: rusqlite::Error) -> CommandError {
    CommandError::failed(format!("sqlite: {error}"))
}

impl Ceiling {
    pub(super) fn open(place: &Place) -> Result<Self> {
        match place {
            Place::Folder(folder) => {
                let name = format!("raw-{:016x}.db", fastrand::u64(..));
                let connection = Connection::open(folder.join(name)).map_err(wrong_file)?;
                let made = connection.execute_batch(
                    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
                     CREATE TABLE event (due INTEGER, id INTEGER, body TEXT,
                     PRIMARY KEY (due, id)) WITHOUT ROWID;",
                );
                made.map_err(wrong_file)?;
                Ok(Self::File(connection))
            }
            Place::Redis { prefix, raw, .. } => {
                let number = fastrand::u64(..);
                let pair = |part| {
                    let key = format!("{prefix}:{{{number:016x}:{part}}}");
                    ["due", "body"].map(|kind| format!("{key}:{kind}"))
                };
                let parts = if raw.is_cluster() { PARTS } else { 1 };
                Ok(Self::Redis(raw.clone(), (0..parts).map(pair).collect()))
            }
        }
    }

    /// Pushes each event by itself, 64 in flight, which is 64 rows a transaction of a file; returns
    /// how many a second.
    pub(super) async fn push_one(&mut self, events: u64) -> Result<f64> {
        let begun = Instant::now();
        match self {
            Self::File(_) => {
                for first in (0..events).step_by(IN_FLIGHT) {
                    let ids: Vec<_> = (first..events.min(first + IN_FLIGHT as u64)).collect();
                    self.push(&ids).await?;
                }
            }
            Self::Redis(connection, keys) => {
                let pushes = stream::iter(0..events).map(|id| {
                    let keys = &keys[id as usize % keys.len()];
                    let (mut connection, pipe) = (connection.clone(), push_pipe(keys, &[id]));
                    async move { pipe.query_async::<()>(&mut connection).await }
                });
                let pushes = pushes.buffer_unordered(IN_FLIGHT);
                pushes.try_collect::<()>().await.map_err(wrong)?;
            }
        }
        Ok(per_second(events, begun.elapsed()))
    }

    /// Pushes events in batches; returns how many a second.
    pub(super) async fn push_batch(&mut self, events: u64) -> Result<f64> {
        let begun = Instant::now();
        for first in (0..events).step_by(BATCH) {
            // Other ids than those that were pushed one by one.
            let ids = first..events.min(first + BATCH as u64);
            let ids: Vec<_> = ids.map(|id| events + id).collect();
            self.push(&ids).await?;
        }
        Ok(per_second(events, begun.elapsed()))
    }

    async fn push(&mut self, ids: &[u64]) -> Result<()> {
        match self {
            Self::File(connection) => {
                let mut pushed = || {
                    let transaction = connection.transaction()?;
                    {
                        let mut insert =
                            transaction.prepare_cached("INSERT INTO event VALUES (?1, ?2, ?3)")?;
                        for id in ids {
                            // Bounded by twice the most events.
                            insert.execute(params![0, *id as i64, payload(0, *id)])?;
                        }
                    }
                    transaction.commit()
                };
                pushed().map_err(wrong_file)
            }
            Self::Redis(connection, keys) => {
                let batch = ids.first().map_or(0, |id| *id as usize / BATCH);
                let pipe = push_pipe(&keys[batch % keys.len()], ids);
                pipe.query_async(connection).await.map_err(wrong)
            }
        }
    }

    /// Takes and removes events in batches; returns how many a second.
    pub(super) async fn drain(&mut self, events: u64) -> Result<f64> {
        let begun = Instant::now();
        let (mut left, mut empty) = (events, 0);
        while left > 0 {
            let taken = self.take().await?;
            empty = if taken == 0 { empty + 1 } else { 0 };
            if empty > PARTS {
                return Err(CommandError::failed("the raw store has lost events"));
            }
            left = left.saturating_sub(taken);
        }
        Ok(per_second(events, begun.elapsed()))
    }

    async fn take(&mut self) -> Result<u64> {
        match self {
            Self::File(connection) => {
                let taken = connection.execute(
                    "DELETE FROM event WHERE (due, id) IN
                     (SELECT due, id FROM event ORDER BY due, id LIMIT ?1)",
                    params![BATCH as i64],
                );
                Ok(taken.map_err(wrong_file)? as u64)
            }
            Self::Redis(connection, keys) => {
                // In turn, so that all servers of a cluster have work.
                keys.rotate_left(1);
                let [due, body] = &keys[0];
                let mut pop = redis::cmd("ZPOPMIN");
                let popped = pop.arg(due).arg(BATCH).query_async(connection).await;
                let popped: Vec<(String, f64)> = popped.map_err(wrong)?;
                let ids: Vec<_> = popped.iter().map(|(id, _)| id).collect();
                if !ids.is_empty() {
                    let mut pipe = redis::pipe();
                    pipe.cmd("HMGET").arg(body).arg(&ids).ignore();
                    pipe.cmd("HDEL").arg(body).arg(&ids).ignore();
                    let done = pipe.query_async(connection).await;
                    let () = done.map_err(wrong)?;
                }
                Ok(ids.len() as u64)
            }
        }
    }
}

fn push_pipe([due, body]: &[String; 2], ids: &[u64]) -> redis::Pipeline {
    let mut pipe = redis::pipe();
    let bodies = pipe.cmd("HSET").arg(body);
    for id in ids {
        bodies.arg(id).arg(payload(0, *id));
    }
    bodies.ignore();
    let members = pipe.cmd("ZADD").arg(due);
    for id in ids {
        members.arg(id).arg(id);
    }
    members.ignore();
    pipe
}
