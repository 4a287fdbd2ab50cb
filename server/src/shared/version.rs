//! A reader of the state's version: many requests that wait share one read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};

use super::remote::RemoteState;
use super::{Result, StateError};

/// How many requests may wait for a read; more wait to be noted.
const WAITING_MAX: usize = 4096;

/// A request that waits for the version.
type Waiting = oneshot::Sender<std::result::Result<u64, String>>;

/// Where the version is read.
#[derive(Debug)]
pub(super) enum VersionReader {
    /// In this process.
    Local(Arc<AtomicU64>),
    /// By a task that reads it for all requests that wait.
    Remote(mpsc::Sender<Waiting>),
}

impl VersionReader {
    pub(super) fn local(version: Arc<AtomicU64>) -> Self {
        Self::Local(version)
    }

    pub(super) fn remote(state: RemoteState) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        tokio::spawn(read_for_all(state, receiver));
        Self::Remote(sender)
    }

    pub(super) async fn read(&self) -> Result<u64> {
        let waiting = match self {
            Self::Local(version) => return Ok(version.load(Ordering::SeqCst)),
            Self::Remote(waiting) => waiting,
        };
        let stopped = || StateError("the reader of the version has stopped".to_owned());
        let (sender, receiver) = oneshot::channel();
        waiting.send(sender).await.map_err(|_| stopped())?;
        receiver.await.map_err(|_| stopped())?.map_err(StateError)
    }
}

/// Reads the version for those that wait when the read begins; ends with the last sender.
async fn read_for_all(state: RemoteState, mut waiting: mpsc::Receiver<Waiting>) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, WAITING_MAX).await > 0 {
        let version = state.version().await.map_err(|error| error.0);
        for request in batch.drain(..) {
            // Who hung up does not wait any more.
            let _ = request.send(version.clone());
        }
    }
}
