//! The state that all requests of a server share.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use duly_dashboard::LoginThrottle;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::admission::{Admission, Admitted, Crowded, Work};
use crate::audited_bulks::AuditedBulks;
use crate::auth::{Grant, LastingGrant, Refusal, Tokens};
use crate::http::body::{Bodies, BodyError};
use crate::http::waits::Waits;
use crate::job_id::JobIds;
use crate::pools::Pools;
use crate::settings::Settings;
use crate::shared::{NAMES_MAX, Result, SharedState, Table, Versions};
use crate::shares::{Bounds, Share, Shares};
use crate::waiters::Waiters;
use crate::webhook::Webhooks;

/// How many known queues are in memory; beyond it the memory starts anew.
const KNOWN_MAX: usize = 100_000;

/// The bytes of lines that have arrived and are not pushed, of clients that push lines.
const LINE_PUSHES: Bounds = Bounds {
    of_all: 256 << 20,
    of_namespace: 128 << 20,
    of_each: 64 << 20,
    idle_min: Duration::ZERO,
};

/// The bytes of large responses and messages that their clients have not read.
const RESPONSES: Bounds = Bounds {
    of_all: 512 << 20,
    of_namespace: 256 << 20,
    of_each: 128 << 20,
    idle_min: Duration::ZERO,
};

/// A server's own state.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) pools: Pools,
    pub(crate) shared: SharedState,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) webhooks: Webhooks,
    /// The ids of jobs.
    pub(crate) job_ids: JobIds,
    /// Slows down guesses of passwords, wherever they are checked.
    pub(crate) logins: LoginThrottle,
    /// Actions on many events, as the audit has them.
    pub(crate) audited_bulks: AuditedBulks,
    /// Whether requests are logged.
    pub(crate) access_log: Arc<AtomicBool>,
    /// Bodies of requests under way.
    pub(crate) bodies: Bodies,
    /// Room for clients that push lines.
    pub(crate) line_pushes: Arc<Shares>,
    /// Places for requests that wait.
    pub(crate) waits: Arc<Waits>,
    /// Room for large responses and messages.
    pub(crate) responses: Arc<Shares>,
    /// The leases and calls of `/v1` that a request of this process waits for.
    pub(crate) waiters: Waiters,
    /// Turns for what is much work.
    pub(crate) admission: Admission,
    /// Where the next look at the notes of respawned jobs begins.
    pub(crate) respawn_notes: Mutex<String>,
    /// Cancelled when the server stops: parked polls end.
    pub(crate) closing: CancellationToken,
    /// The queues that the shared state knows already.
    known: Arc<Mutex<KnownQueues>>,
}

/// The names of known queues, as long as none of them has failed to be written, nor was forgotten.
#[derive(Debug, Default)]
struct KnownQueues {
    names: HashSet<String>,
    /// The namespaces that have no room for more.
    full: HashSet<String>,
    failures: u64,
    version: Versions,
}

/// Why a request's body is not used.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// It was not read.
    Body(BodyError),
    /// It was, and its token has ended meanwhile.
    Refused(Refusal),
}

impl App {
    pub(crate) fn new(
        settings: Settings,
        pools: Pools,
        shared: SharedState,
        job_ids: JobIds,
    ) -> Self {
        let closing = CancellationToken::new();
        let waits = Arc::new(Waits::new(settings.limits.connections));
        let body_timeout = settings.limits.body_timeout();
        Self {
            bodies: Bodies::new(Arc::clone(&waits), body_timeout, closing.clone()),
            access_log: Arc::new(AtomicBool::new(settings.log.access)),
            webhooks: Webhooks::start(&settings.webhooks, &pools, &shared),
            waits,
            settings,
            pools,
            tokens: Arc::new(Tokens::new(shared.clone())),
            shared,
            job_ids,
            logins: LoginThrottle::default(),
            audited_bulks: AuditedBulks::default(),
            line_pushes: Shares::new(LINE_PUSHES),
            responses: Shares::new(RESPONSES),
            waiters: Waiters::default(),
            admission: Admission::default(),
            respawn_notes: Mutex::default(),
            closing,
            known: Arc::default(),
        }
    }

    /// Reads the body of a request, and then checks its right again: a body may take its time. Returns
    /// the body, its room, and what the token may do by now.
    pub(crate) async fn read(
        &self,
        grant: &LastingGrant,
        body: Body,
        bytes_max: usize,
    ) -> std::result::Result<(Bytes, Option<Share>, Arc<Grant>), ReadError> {
        #[allow(clippy::disallowed_methods)] // the right is checked here
        let read = self.bodies.read(grant.owner(), body, bytes_max);
        let (bytes, room) = read.await.map_err(ReadError::Body)?;
        let checked = grant.check(&self.tokens).await;
        Ok((bytes, room, checked.map_err(ReadError::Refused)?))
    }

    /// Admits a request that reads or changes much in its namespace.
    pub(crate) fn admit(
        &self,
        work: Work,
        grant: &LastingGrant,
    ) -> std::result::Result<Admitted<'_>, Crowded> {
        self.admission.admit(work, grant, &self.tokens)
    }

    fn known(&self) -> parking_lot::MutexGuard<'_, KnownQueues> {
        self.known.lock()
    }

    /// Returns the known queues of a version of the shared state.
    fn known_at(&self, version: Versions) -> parking_lot::MutexGuard<'_, KnownQueues> {
        let mut known = self.known();
        let failures = self.shared.failures();
        let is_as_before = (known.version, known.failures) == (version, failures);
        if !is_as_before || known.names.len() >= KNOWN_MAX {
            (known.version, known.failures) = (version, failures);
            known.names.clear();
            known.full.clear();
        }
        known
    }

    /// Makes a queue known to `/info`, before the first publish of this process. Where its namespace
    /// has no room for more names that is logged, and the publish goes on.
    pub(crate) async fn note_queue(&self, pool: &str, namespace: &str, queue: &str) -> Result<()> {
        let (place, version) = (
            format!("{pool}/{namespace}/"),
            self.shared.recent_version_of_names().await?,
        );
        let key = format!("{place}{queue}");
        {
            let known = self.known_at(version);
            if known.names.contains(&key) || known.full.contains(&place) {
                return Ok(());
            }
        }
        let is_full = {
            let (known, place) = (Arc::clone(&self.known), place.clone());
            move || {
                let mut known = known.lock();
                // Where a name was forgotten meanwhile, there may be room.
                if known.version == version && known.full.insert(place.clone()) {
                    let (namespace, most) = (place, NAMES_MAX);
                    tracing::warn!(namespace, most, "names of queues are full");
                }
            }
        };
        let is_decided = match self.shared.note_queue(&place, queue, is_full).await {
            Err(error) if error.is_full() => {
                tracing::warn!(%error, "name of a queue not noted");
                false
            }
            noted => noted?,
        };
        if !is_decided {
            return Ok(()); // the next publish tries again
        }
        let mut known = self.known();
        // Where it was forgotten meanwhile, its next publish notes it.
        if known.version == version {
            known.names.insert(key);
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
        self.known().names.remove(&key);
        self.shared.forget_queue(&key).await?;
        // Raises the version of names, by which other servers forget that they have noted it.
        self.shared.put(Table::Forgotten, pool, &key).await?;
        *self.known() = KnownQueues::default();
        Ok(())
    }
}
