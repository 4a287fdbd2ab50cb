//! The thread that has the file of the state: it runs what it is sent, and writes what came together
//! in one transaction, so that no request waits for a disk on a thread of the runtime.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::own_file::OwnFile;
use super::versions::{LocalVersions, VersionOf};
use super::{Result, StateError};

/// The most tasks that wait.
const WAITING_MAX: usize = 4_096;
/// How many are written in one transaction.
const BATCH_MAX: usize = 256;
/// How long the last owner waits until the file is closed.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Statements, and who waits for them.
trait Task: Send {
    /// Runs the statements.
    fn run(&mut self, connection: &Connection);
    /// Returns why its statements failed.
    fn error(&self) -> Option<&StateError>;
    /// Sends the result, or why the transaction failed.
    fn send(self: Box<Self>, failed: Option<&StateError>);
    /// Returns the version that they raise.
    fn version(&self) -> Option<VersionOf>;
}

/// A task with its statements, its result, and where that goes.
struct Statements<T, R, S> {
    run: Option<R>,
    result: Option<Result<T>>,
    send: S,
    version: Option<VersionOf>,
    /// Given back when the task has ended.
    _place: OwnedSemaphorePermit,
}

impl<T, R, S> Task for Statements<T, R, S>
where
    T: Send,
    R: FnOnce(&Connection) -> Result<T> + Send,
    S: FnOnce(Result<T>) + Send,
{
    fn run(&mut self, connection: &Connection) {
        self.result = self.run.take().map(|run| run(connection));
    }

    fn error(&self) -> Option<&StateError> {
        self.result
            .as_ref()
            .and_then(|result| result.as_ref().err())
    }

    fn send(self: Box<Self>, failed: Option<&StateError>) {
        let result = match failed {
            Some(error) => Err(error.clone()),
            None => self.result.unwrap_or_else(|| Err(stopped())),
        };
        (self.send)(result);
    }

    fn version(&self) -> Option<VersionOf> {
        self.version
    }
}

/// What is put without waiting has no room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full;

/// The thread. It ends with this.
pub(super) struct StateFile {
    tasks: Option<SyncSender<Box<dyn Task>>>,
    /// A place for each that waits, so that the thread's queue is never full.
    places: Arc<Semaphore>,
    /// How many tasks without a waiter have failed.
    failures: Arc<AtomicU64>,
    /// Has nothing, and ends when the file is closed.
    closed: Mutex<Receiver<()>>,
}

impl std::fmt::Debug for StateFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateFile").finish_non_exhaustive()
    }
}

impl StateFile {
    /// Starts the thread; `own` is the file of the connection, unless that is in memory. `versions`
    /// are raised when what they are of is written.
    pub(super) fn start(
        connection: Connection,
        versions: Arc<LocalVersions>,
        own: Option<OwnFile>,
    ) -> io::Result<Self> {
        let (tasks, receiver) = sync_channel(WAITING_MAX);
        let (open, closed) = sync_channel(0);
        std::thread::Builder::new()
            .name("duly-state".to_owned())
            .spawn(move || {
                run_all(&receiver, &connection, own.as_ref(), &versions);
                drop(connection);
                drop(own);
                drop(open);
            })?;
        Ok(Self {
            tasks: Some(tasks),
            places: Arc::new(Semaphore::new(WAITING_MAX)),
            failures: Arc::default(),
            closed: Mutex::new(closed),
        })
    }

    /// Runs statements, and returns once they are written. They are run although the caller is gone.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        version: Option<VersionOf>,
        run: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let (sender, receiver) = oneshot::channel();
        let task = Statements {
            run: Some(run),
            result: None,
            send: move |result| drop(sender.send(result)), // the caller may be gone
            version,
            _place: place.map_err(|_| stopped())?,
        };
        self.add(Box::new(task)).map_err(|_| stopped())?;
        receiver.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Returns how many statements that were to run soon have failed.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::SeqCst)
    }

    /// Runs statements soon; an error is logged, and counted.
    pub(super) fn run_later(
        &self,
        what: &'static str,
        run: impl FnOnce(&Connection) -> Result<()> + Send + 'static,
    ) -> std::result::Result<(), Full> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let failures = Arc::clone(&self.failures);
        self.add(Box::new(Statements {
            run: Some(run),
            result: None,
            send: move |result: Result<()>| {
                if let Err(error) = result {
                    failures.fetch_add(1, Ordering::SeqCst);
                    tracing::warn!(%error, what, "state not written");
                }
            },
            version: None,
            _place: place.map_err(|_| Full)?,
        }))
    }

    fn add(&self, task: Box<dyn Task>) -> std::result::Result<(), Full> {
        let sent = self.tasks.as_ref().map(|tasks| tasks.try_send(task));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(Full),
        }
    }
}

/// Waits until the file is closed, so that whoever comes next may open it.
impl Drop for StateFile {
    fn drop(&mut self) {
        self.tasks = None;
        let closed = self.closed.get_mut();
        let _ = closed.recv_timeout(CLOSE_MAX);
    }
}

#[allow(clippy::needless_pass_by_value)] // what `map_err` takes
pub(super) fn failed(error: rusqlite::Error) -> StateError {
    StateError {
        is_full: error.sqlite_error_code() == Some(ErrorCode::DiskFull),
        ..StateError::new("sqlite", &error)
    }
}

fn stopped() -> StateError {
    StateError::of("the file is closed".to_owned())
}

fn run_all(
    receiver: &Receiver<Box<dyn Task>>,
    connection: &Connection,
    own: Option<&OwnFile>,
    versions: &LocalVersions,
) {
    let check = || own.map_or(Ok(()), OwnFile::check);
    while let Ok(first) = receiver.recv() {
        let more = receiver.try_iter().take(BATCH_MAX - 1);
        let mut batch: Vec<Box<dyn Task>> = std::iter::once(first).chain(more).collect();
        // Again afterwards: nothing is confirmed that went into a file which was taken away meanwhile.
        let written = check().and_then(|()| write(&mut batch, connection));
        let written = written.and_then(|()| check());
        for version in VersionOf::ALL {
            if batch.iter().any(|task| task.version() == Some(version)) {
                versions.raise(version);
            }
        }
        for task in batch {
            task.send(written.as_ref().err());
        }
    }
}

/// Runs tasks in one transaction, which fails as a whole.
fn write(batch: &mut [Box<dyn Task>], connection: &Connection) -> Result<()> {
    connection.execute_batch("BEGIN").map_err(failed)?;
    for task in batch {
        task.run(connection);
        if connection.is_autocommit() {
            // A failure such as a full disk has ended the transaction.
            let unknown = || StateError::of("the file was not written".to_owned());
            return Err(task.error().cloned().unwrap_or_else(unknown));
        }
    }
    let ended = connection.execute_batch("COMMIT");
    if ended.is_err() && !connection.is_autocommit() {
        // Fails only where it was rolled back already.
        let _ = connection.execute_batch("ROLLBACK");
    }
    ended.map_err(failed)
}
