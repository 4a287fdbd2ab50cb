//! The raw ceiling: the same work as plain commands of the store, without a library.
//!
//! It keeps an id and a body of each event, ordered by due time, and nothing else: no attempts, no
//! leases, no records.

use duly::__server::redis::{Client, cmd, pipe};
use futures_util::{StreamExt, TryStreamExt, stream};
use rusqlite::{Connection, params};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::load::{BATCH, IN_FLIGHT, payload, per_second};
use super::place::{Place, PlaceKind};
use crate::command::error::{CommandError, Result};

/// Over how many keys the events are spread in a cluster.
const PARTS: usize = 16;

/// The raw store.
pub(super) enum Ceiling {
    File(Connection),
    /// Each pair of keys lies on one server of a cluster.
    Redis(Client, Vec<[String; 2]>),
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` passes it
fn wrong_file(error: rusqlite::Error) -> CommandError {
    CommandError::failed(format!("sqlite: {error}"))
}

impl Ceiling {
    pub(super) fn open(place: &Place) -> Result<Self> {
        match &place.kind {
            PlaceKind::Folder(folder) => {
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
            PlaceKind::Redis { client, .. } => {
                let number = fastrand::u64(..);
                let pair = |part| {
                    let key = format!("{{{number:016x}:{part}}}");
                    ["due", "body"].map(|kind| client.key(&format!("{key}:{kind}")))
                };
                let parts = if client.is_cluster() { PARTS } else { 1 };
                Ok(Self::Redis(client.clone(), (0..parts).map(pair).collect()))
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
            Self::Redis(client, keys) => {
                let pushes = stream::iter(0..events)
                    .map(|id| push(client, &keys[id as usize % keys.len()], vec![id]));
                let pushes = pushes.buffer_unordered(IN_FLIGHT);
                pushes.try_collect::<()>().await?;
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
                pushed().map_err(wrong_file)?;
                yield_now().await; // a file has no other point at which it can be interrupted
                Ok(())
            }
            Self::Redis(client, keys) => {
                let batch = ids.first().map_or(0, |id| *id as usize / BATCH);
                push(client, &keys[batch % keys.len()], ids).await
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
                yield_now().await;
                Ok(taken.map_err(wrong_file)? as u64)
            }
            Self::Redis(client, keys) => {
                // In turn, so that all servers of a cluster have work.
                keys.rotate_left(1);
                let [due, body] = &keys[0];
                let mut pop = cmd("ZPOPMIN");
                let popped: Vec<(String, f64)> = client.send(pop.arg(due).arg(BATCH)).await?;
                let ids: Vec<_> = popped.iter().map(|(id, _)| id).collect();
                if !ids.is_empty() {
                    let mut taken = pipe();
                    taken.cmd("HMGET").arg(body).arg(&ids);
                    taken.cmd("HDEL").arg(body).arg(&ids);
                    let () = client.send_all(client.master_of(body), &taken).await?;
                }
                Ok(ids.len() as u64)
            }
        }
    }
}

/// Pushes events under a pair of keys, in one pipeline.
async fn push(client: &Client, [due, body]: &[String; 2], ids: impl AsRef<[u64]>) -> Result<()> {
    let ids = ids.as_ref();
    let mut pushed = pipe();
    let bodies = pushed.cmd("HSET").arg(body);
    for id in ids {
        bodies.arg(id).arg(payload(0, *id));
    }
    let members = pushed.cmd("ZADD").arg(due);
    for id in ids {
        members.arg(id).arg(id);
    }
    Ok(client.send_all(client.master_of(due), &pushed).await?)
}
