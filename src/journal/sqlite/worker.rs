//! A thread that does one call after the other, so that no file is waited for on the runtime.

use std::fmt;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::error::{Error, ErrorKind, Result};
use crate::panics;

/// How many calls may wait for a thread.
const WAITING_MAX: usize = 256;

/// A thread that owns a `T`, and calls for it.
pub(super) struct Worker<T> {
    calls: Mutex<Option<SyncSender<Call<T>>>>,
    /// Its other end is dropped when the thread has let go of what it owned.
    ended: watch::Receiver<()>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

type Call<T> = Box<dyn FnOnce(&mut T) + Send>;

impl<T: Send + 'static> Worker<T> {
    /// Starts a thread of that name.
    ///
    /// # Errors
    ///
    /// When there is no thread to be had.
    pub(super) fn start(name: &str, mut owned: T) -> Result<Self> {
        let (calls, waiting) = sync_channel::<Call<T>>(WAITING_MAX);
        let (ends, ended) = watch::channel(());
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                waiting.into_iter().for_each(|call| call(&mut owned));
                drop(owned);
                drop(ends);
            })
            .map_err(|error| {
                let what =
                    "the journal could not start its thread; check the limits of this process";
                Error::new(ErrorKind::Unavailable, what).because(error)
            })?;
        Ok(Self {
            calls: Mutex::new(Some(calls)),
            ended,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Does `call` on the thread, after those that wait, and returns what it returns.
    pub(super) fn run<A: Send + 'static>(
        &self,
        call: impl FnOnce(&mut T) -> Result<A> + Send + 'static,
    ) -> impl Future<Output = Result<A>> + Send + 'static {
        let (result, answered) = oneshot::channel();
        let call: Call<T> = Box::new(move |owned| drop(result.send(call(owned))));
        let refused = match &*lock(&self.calls) {
            Some(calls) => calls.try_send(call).err().map(|error| match error {
                TrySendError::Full(_) => Error::new(
                    ErrorKind::Unavailable,
                    format!("{WAITING_MAX} calls wait for the journal already; try again"),
                ),
                TrySendError::Disconnected(_) => closed(),
            }),
            None => Some(closed()),
        };
        async move {
            match refused {
                Some(error) => Err(error),
                None => answered.await.unwrap_or_else(|_| Err(closed())),
            }
        }
    }

    /// Takes no more calls; those that wait are done. The future is ready when the thread has let
    /// go of what it owned.
    pub(super) fn close(&self) -> impl Future<Output = ()> + Send + 'static {
        drop(lock(&self.calls).take());
        let mut ended = self.ended.clone();
        async move { while ended.changed().await.is_ok() {} }
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        drop(lock(&self.calls).take());
        let thread = lock(&self.thread).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            panics::reported(|| tracing::error!("journal thread panicked"));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    mutex.lock()
}

fn closed() -> Error {
    Error::closed("the journal is closed; open it again")
}

impl<T> fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}
