//! Reads beside the writer: bodies that are not in memory, and damaged rows.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension};
use tokio::sync::oneshot;

use crate::codec::wire;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Envelope, EventId};
use crate::panics;
use crate::store::embedded::row::Row;
use crate::store::embedded::sqlite::{self, Failure};
use crate::time::Timestamp;

/// How many reads may wait.
const WAITING_MAX: usize = 1_024;
/// How many lines of damage are listed.
const DAMAGED_MAX: i64 = 1_000;

/// What was set aside because its checksum did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedRow {
    /// When it was found.
    pub found: Timestamp,
    /// What was wrong.
    pub why: String,
    /// The row it lay in; `None` when that is not known.
    pub row: Option<u64>,
    /// The id that its bytes name, which may be damaged itself.
    pub id: Option<EventId>,
    /// What there is of its envelope.
    pub body: Vec<u8>,
}

/// The connection that only reads.
#[derive(Debug)]
pub(super) struct Reader {
    connection: Connection,
}

impl Reader {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// The envelope in `row`; `Ok(Err)` says why it cannot be had.
    pub(super) fn envelope(&self, row: Row) -> Result<Result<Envelope>, Failure> {
        let read = || -> rusqlite::Result<Option<Result<Envelope>>> {
            self.connection
                .prepare_cached("SELECT body FROM events WHERE row = ?1")?
                .query_row([row.number], |found| {
                    Ok(match found.get_ref(0)?.as_blob() {
                        Ok(body) => wire::decode(body),
                        Err(error) => Err(Error::corrupt("it is no envelope").because(error)),
                    })
                })
                .optional()
        };
        let missing = || Err(Error::corrupt("its row is gone from the file"));
        let found = read()?.unwrap_or_else(missing);
        Ok(found.and_then(|envelope| {
            if row.is_of(envelope.id) {
                return Ok(envelope);
            }
            Err(Error::corrupt("its row holds another event"))
        }))
    }

    /// What was set aside, the latest first.
    pub(super) fn damaged(&self) -> Result<Vec<DamagedRow>> {
        let read = || -> rusqlite::Result<Vec<DamagedRow>> {
            let mut statement = self.connection.prepare_cached(
                "SELECT found, why, row, body FROM damaged ORDER BY number DESC LIMIT ?1",
            )?;
            let rows = statement.query_map([DAMAGED_MAX], |found| {
                let body: Vec<u8> = found.get(3).unwrap_or_default();
                Ok(DamagedRow {
                    found: Timestamp::from_millis(found.get::<_, i64>(0)?.cast_unsigned()),
                    why: found.get(1)?,
                    row: found.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
                    id: wire::id_in(&body),
                    body,
                })
            })?;
            rows.collect()
        };
        read().map_err(sqlite::at_read)
    }
}

/// Where an `R` reads: on a thread of its own, or at once on the caller's.
#[derive(Debug)]
pub(super) enum ReadThread<R> {
    Thread(Mutex<Option<JobsAndThread<R>>>),
    Inline(Mutex<Option<R>>),
}

/// The way to a thread that reads.
type JobsAndThread<R> = (SyncSender<Job<R>>, JoinHandle<()>);

/// Something to read.
pub(super) struct Job<R>(Box<dyn FnOnce(&mut R) + Send>);

impl<R: Send + 'static> ReadThread<R> {
    /// A thread of that name, or none.
    pub(super) fn start(mut reader: R, thread: Option<&str>) -> std::io::Result<Self> {
        let Some(name) = thread else {
            return Ok(Self::Inline(Mutex::new(Some(reader))));
        };
        let (jobs, todo): (_, Receiver<Job<R>>) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || todo.into_iter().for_each(|Job(job)| job(&mut reader)))?;
        Ok(Self::Thread(Mutex::new(Some((jobs, thread)))))
    }

    /// Does `read`, and returns what it returns.
    pub(super) fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut R) -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send + 'static {
        let (response, answered) = oneshot::channel();
        let refused = match self {
            Self::Thread(thread) => {
                let job = Job(Box::new(move |reader| drop(response.send(read(reader)))));
                match &*thread.lock() {
                    Some((jobs, _)) => match jobs.try_send(job) {
                        Ok(()) => None,
                        Err(TrySendError::Full(_)) => Some(Error::new(
                            ErrorKind::Unavailable,
                            format!("{WAITING_MAX} reads wait already; try again"),
                        )),
                        Err(TrySendError::Disconnected(_)) => Some(closed()),
                    },
                    None => Some(closed()),
                }
            }
            Self::Inline(reader) => match &mut *reader.lock() {
                Some(reader) => {
                    drop(response.send(read(reader)));
                    None
                }
                None => Some(closed()),
            },
        };
        async move {
            match refused {
                Some(error) => Err(error),
                None => answered.await.unwrap_or_else(|_| Err(closed())),
            }
        }
    }

    /// Finishes what waits and lets go of the file.
    pub(super) fn close(&self) {
        match self {
            Self::Thread(thread) => {
                let thread = thread.lock().take();
                if let Some((jobs, thread)) = thread {
                    drop(jobs);
                    if thread.join().is_err() {
                        panics::reported(|| {
                            tracing::error!("reader thread of the embedded store panicked");
                        });
                    }
                }
            }
            Self::Inline(reader) => {
                drop(reader.lock().take());
            }
        }
    }
}

pub(super) fn closed() -> Error {
    Error::closed("the store is closed; open it again")
}

impl<R> std::fmt::Debug for Job<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

/// Returns the error of a store that could not start a thread.
pub(super) fn no_thread(error: std::io::Error) -> Error {
    let what = "the store could not start its thread; check the limits of this process";
    Error::new(ErrorKind::Unavailable, what).because(error)
}
