//! The recorder: carries records from outboxes to the journal.
//!
//! ```text
//!   news ──> linger ──> read some outboxes ──> load, all or nothing ──> trim ──> again
//!                              ^                      |
//!                              `──── back off <── journal away
//! ```
//!
//! While more waits than one load takes, two are under way at a time, each of outboxes of its own.
//! It trims only what the journal has answered for, so a kill at any moment costs nothing: what was
//! loaded and not trimmed is loaded once more, which changes nothing. Several nodes may carry the
//! same outbox at once, for the same reason.

mod carry;
mod changed;
mod prune;
mod size;
mod status;

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::carry::Carrier;
use self::changed::ChangedOutboxes;
pub use self::status::JournalStatus;
use self::status::SharedStatus;
use crate::error::{Error, ErrorKind, Result};
use crate::journal::contract::Journal;
use crate::panics;
use crate::record::Keep;
use crate::store::{OutboxWatcher, Store};

/// How a recorder goes about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderOptions {
    /// How long it gathers records before it loads them, at most 10 s: one transaction for many
    /// costs little more than one for a few. Default: 50 ms.
    pub linger: Duration,
    /// How long it waits for an answer of the journal before it takes it for away, more than 0.
    /// Default: 30 s.
    pub patience: Duration,
    /// How long it waits at most before it tries again a journal that is away, more than 0. The
    /// first time it waits 50 ms, then twice as long each time. Default: 5 s.
    pub retry_max: Duration,
    /// How often it looks into every outbox, for what another node has written and not recorded
    /// before it died; more than 0. It also looks within a second of a node that consumes something
    /// ending its membership. Default: as often as the store's [`fallback_poll_every`](Store::fallback_poll_every) says.
    pub fallback_poll_every: Option<Duration>,
    /// How long it may take to record what is left when the bus stops. Default: 2 s.
    pub stop_within: Duration,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self {
            linger: Duration::from_millis(50),
            patience: Duration::from_secs(30),
            retry_max: Duration::from_secs(5),
            fallback_poll_every: None,
            stop_within: Duration::from_secs(2),
        }
    }
}

impl RecorderOptions {
    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`], naming value and bound.
    pub fn check(&self) -> Result<()> {
        const LINGER_MAX: Duration = Duration::from_secs(10);
        if self.linger > LINGER_MAX {
            return Err(Error::invalid(format!(
                "the recorder's linger is {:?}, it is at most {LINGER_MAX:?}",
                self.linger
            )));
        }
        let some = [
            ("patience", Some(self.patience)),
            ("retry_max", Some(self.retry_max)),
            ("fallback_poll_every", self.fallback_poll_every),
        ];
        for (name, value) in some {
            if value.is_some_and(|value| value.is_zero()) {
                return Err(Error::invalid(format!(
                    "the recorder's {name} is 0, it is more than that"
                )));
            }
        }
        Ok(())
    }
}

/// What a recorder is started with.
pub(crate) struct Setup {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) journal: Arc<dyn Journal>,
    /// What the store is called in the names of outboxes.
    pub(crate) name: String,
    pub(crate) keep: Keep,
    /// Told when another node is gone, which may have left records that nobody has heard of.
    pub(crate) member_lost: Arc<Notify>,
    pub(crate) options: RecorderOptions,
}

/// A running recorder: one task that records, and one that removes what is old.
pub(crate) struct Recorder {
    status: Arc<SharedStatus>,
    changed: Arc<ChangedOutboxes>,
    stop: CancellationToken,
    stop_within: Duration,
    /// The one that records, until somebody waits for its end.
    recording: Mutex<Option<JoinHandle<()>>>,
    pruning: JoinHandle<()>,
}

impl Recorder {
    /// Starts both tasks on the current runtime.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`] when as many recorders as the store takes carry its records.
    pub(crate) fn start(setup: Setup) -> Result<Self> {
        let (status, changed) = (
            Arc::new(SharedStatus::new()),
            Arc::<ChangedOutboxes>::default(),
        );
        let stop = CancellationToken::new();
        let stop_within = setup.options.stop_within;
        let watcher: Arc<dyn OutboxWatcher> = Arc::clone(&changed) as _;
        setup.store.watch_outboxes(Arc::downgrade(&watcher))?;
        let (store, journal) = (Arc::clone(&setup.store), Arc::clone(&setup.journal));
        let (keep, patience) = (setup.keep, setup.options.patience);
        let prune = move || prune::run(Arc::clone(&store), Arc::clone(&journal), keep, patience);
        let pruning = panics::lasting("pruning the journal panicked", prune);
        let carrier = Carrier::new(setup, Arc::clone(&status), Arc::clone(&changed));
        Ok(Self {
            recording: Mutex::new(Some(tokio::spawn(carrier.run(stop.clone())))),
            pruning: tokio::spawn(pruning),
            status,
            changed,
            stop,
            stop_within,
        })
    }

    /// What it has done, and how the journal is.
    pub(crate) fn status(&self) -> JournalStatus {
        self.status.status()
    }

    /// Records what is left, for as long as that may take, and ends.
    pub(crate) async fn stop(&self) {
        self.pruning.abort();
        self.stop.cancel();
        let recording = self.lock().take();
        let Some(mut recording) = recording else {
            return;
        };
        let ended = tokio::time::timeout(self.stop_within, &mut recording).await;
        self.changed.end();
        if ended.is_err() {
            recording.abort();
        }
        self.status.ended();
        let waiting = self.status().waiting;
        if waiting > 0 {
            panics::reported(|| {
                tracing::warn!(
                    waiting,
                    "the bus stops while records wait for the journal; they stay in the store, and \
                     the next one records them"
                );
            });
        }
    }

    /// Ends at once; what is left stays in the store.
    pub(crate) fn abandon(&self) {
        self.pruning.abort();
        self.changed.end();
        if let Some(recording) = self.lock().take() {
            recording.abort();
        }
        self.status.ended();
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.recording.lock()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// What a journal returns, or an error where it takes too long or panics: whatever a journal does,
/// whoever asks goes on.
pub(crate) async fn answered<T>(
    patience: Duration,
    result: impl Future<Output = Result<T>>,
) -> Result<T> {
    match tokio::time::timeout(patience, AssertUnwindSafe(result).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(Error::new(
            ErrorKind::Unknown,
            format!("the journal panicked: {}", panics::message(panic)),
        )),
        Err(_elapsed) => Err(Error::new(
            ErrorKind::Unknown,
            format!("the journal has not answered for {patience:?}"),
        )),
    }
}
