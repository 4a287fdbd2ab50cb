//! What every request of a server shares.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use duly_dashboard::LoginThrottle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::auth::Tokens;
use crate::lmstfy::JobIds;
use crate::lmstfy::gauges::Gauges;
use crate::pools::Pools;
use crate::settings::Settings;
use crate::shared::{Result, SharedState, Table};
use crate::v1::Waiters;
use crate::webhook::Webhooks;

/// How many known queues are in memory; beyond it the memory starts anew.
const KNOWN_MAX: usize = 100_000;

/// How many bodies that may be large are read at the same time.
const LARGE_BODIES_MAX: usize = 16;

/// How many clients push lines at the same time.
const LINE_PUSHES_MAX: usize = 64;

/// A server's own state.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) pools: Pools,
    pub(crate) shared: SharedState,
    pub(crate) tokens: Tokens,
    pub(crate) webhooks: Webhooks,
    /// The ids of jobs.
    pub(crate) job_ids: JobIds,
    /// Slows down guesses of passwords, wherever they are checked.
    pub(crate) logins: LoginThrottle,
    /// Whether requests are logged.
    pub(crate) access_log: Arc<AtomicBool>,
    /// Places for bodies that may be large, so that few of them are in memory.
    pub(crate) large_bodies: Semaphore,
    /// Places for clients that push lines.
    pub(crate) line_pushes: Arc<Semaphore>,
    /// The leases and calls of `/v1` that a request of this process waits for.
    pub(crate) waiters: Waiters,
    /// Sizes of queues, for the page of metrics.
    pub(crate) gauges: Gauges,
    /// Cancelled when the server stops: parked polls end.
    pub(crate) closing: CancellationToken,
    /// The queues that the shared state knows already, by the version at which none was forgotten.
    known: Mutex<(u64, HashSet<String>)>,
}

impl App {
    pub(crate) fn new(
        settings: Settings,
        pools: Pools,
        shared: SharedState,
        job_ids: JobIds,
    ) -> Self {
        Self {
            access_log: Arc::new(AtomicBool::new(settings.log.access)),
            webhooks: Webhooks::start(&settings.webhooks, &pools, &shared),
            settings,
            pools,
            tokens: Tokens::new(shared.clone()),
            shared,
            job_ids,
            logins: LoginThrottle::default(),
            large_bodies: Semaphore::new(LARGE_BODIES_MAX),
            line_pushes: Arc::new(Semaphore::new(LINE_PUSHES_MAX)),
            waiters: Waiters::default(),
            gauges: Gauges::default(),
            closing: CancellationToken::new(),
            known: Mutex::default(),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, (u64, HashSet<String>)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a queue known to `/info`, before the first publish of this process.
    pub(crate) async fn note_queue(&self, pool: &str, namespace: &str, queue: &str) -> Result<()> {
        let key = format!("{pool}/{namespace}/{queue}");
        let version = self.shared.recent_version().await?;
        {
            let mut known = self.known();
            if known.0 != version {
                *known = (version, HashSet::new());
            }
            if known.1.contains(&key) {
                return Ok(());
            }
        }
        self.shared.put(Table::Queues, &key, "").await?;
        let mut known = self.known();
        if known.1.len() >= KNOWN_MAX {
            known.1.clear();
        }
        // Where it was forgotten meanwhile, its next publish notes it.
        if known.0 == version {
            known.1.insert(key);
        }
        Ok(())
    }

    /// Makes a queue unknown.
    pub(crate) async fn forget_queue(
        &self,
        pool: &str,
        namespace: &str,
        queue: &str,
    ) -> Result<()> {
        let key = format!("{pool}/{namespace}/{queue}");
        self.known().1.remove(&key);
        self.shared.remove(Table::Queues, &key).await?;
        // Raises the version, by which other servers forget that they have noted it.
        self.shared.put(Table::Forgotten, pool, &key).await
    }
}
