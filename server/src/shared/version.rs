//! A reader of the state's versions, which are read seldom although each request depends on it.
//!
//! A version that was read may be used for [`RECENT`] after the read began; a change of who may do
//! what is confirmed only when that time is over for whoever has read the version before it. So no
//! request that begins after the confirmation goes by what was before, on whatever node.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::remote::RemoteState;
use super::versions::{LocalVersions, Versions};
use super::{Result, StateError, within};

/// How long a version may be used.
const RECENT: Duration = Duration::from_millis(100);
/// The age at which a version that is in use is read again, so that no request waits for that.
const RENEWED_AT: Duration = Duration::from_millis(50);
/// How long a change waits: clocks of different machines do not run equally fast.
const OUTDATED_AFTER: Duration = Duration::from_millis(120);

/// A request that waits for the version.
type Waiting = oneshot::Sender<std::result::Result<Versions, String>>;

/// Where the version is read.
#[derive(Debug)]
pub(super) enum VersionReader {
    /// In this process.
    Local(Arc<LocalVersions>),
    /// By a task that reads it for all requests that wait.
    Remote {
        /// The requests; `None` renews what is known, for nobody. Each has a connection, of which there
        /// are so many.
        reads: mpsc::UnboundedSender<Option<Waiting>>,
        known: Arc<Known>,
    },
}

/// The version that was read last.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<Option<KnownVersion>>);

#[derive(Clone, Copy, Debug)]
struct KnownVersion {
    version: Versions,
    /// When its read began.
    begun: Instant,
    /// It is being read again.
    is_renewing: bool,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Option<KnownVersion>> {
        self.0.lock()
    }

    /// Returns the version, if it may be used, and whether to renew it.
    fn get(&self, now: Instant) -> Option<(Versions, bool)> {
        let mut known = self.lock();
        let known = known.as_mut()?;
        let age = now.duration_since(known.begun);
        if age >= RECENT {
            return None;
        }
        let renews = age >= RENEWED_AT && !known.is_renewing;
        known.is_renewing |= renews;
        Some((known.version, renews))
    }

    /// A read that began at `begun` has ended.
    fn set(&self, begun: Instant, version: Option<Versions>) {
        let mut known = self.lock();
        match (version, known.as_mut()) {
            (Some(version), _) => {
                *known = Some(KnownVersion {
                    version,
                    begun,
                    is_renewing: false,
                });
            }
            (None, Some(known)) => known.is_renewing = false,
            (None, None) => {}
        }
    }
}

impl VersionReader {
    pub(super) fn local(version: Arc<LocalVersions>) -> Self {
        Self::Local(version)
    }

    pub(super) fn remote(state: RemoteState) -> Self {
        let (reads, receiver) = mpsc::unbounded_channel();
        let known = Arc::<Known>::default();
        let read = async move || state.versions().await;
        tokio::spawn(read_for_all(read, receiver, Arc::clone(&known)));
        Self::Remote { reads, known }
    }

    /// Reads the version, later than the call begins.
    pub(super) async fn read(&self) -> Result<Versions> {
        let reads = match self {
            Self::Local(version) => return Ok(version.get()),
            Self::Remote { reads, .. } => reads,
        };
        let stopped = || StateError::of("the reader of the version has stopped".to_owned());
        let (sender, receiver) = oneshot::channel();
        reads.send(Some(sender)).map_err(|_| stopped())?;
        receiver
            .await
            .map_err(|_| stopped())?
            .map_err(StateError::of)
    }

    /// Returns the version, which may be that of [`RECENT`] ago.
    pub(super) async fn recent(&self) -> Result<Versions> {
        if let Self::Remote { reads, known } = self
            && let Some((version, renews)) = known.get(Instant::now())
        {
            if renews && reads.send(None).is_err() {
                known.set(Instant::now(), None); // a later request tries again
            }
            return Ok(version);
        }
        self.read().await
    }

    /// Waits until no node uses a version from before this call.
    pub(super) async fn outdated(&self) {
        if let Self::Remote { .. } = self {
            tokio::time::sleep(OUTDATED_AFTER).await;
        }
    }
}

/// Reads the version for all that wait when the read begins; ends with the last sender. Who comes
/// during a read waits for that and the next, so each has a bound of its own.
async fn read_for_all(
    read: impl AsyncFn() -> Result<Versions>,
    mut reads: mpsc::UnboundedReceiver<Option<Waiting>>,
    known: Arc<Known>,
) {
    let mut batch = Vec::new();
    while reads.recv_many(&mut batch, usize::MAX).await > 0 {
        let begun = Instant::now();
        let version = within(read()).await.map_err(|error| error.text);
        known.set(begun, version.as_ref().ok().copied());
        for request in batch.drain(..).flatten() {
            // Who hung up does not wait any more.
            let _ = request.send(version.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::task::JoinSet;

    use super::*;
    use crate::shared::RESPONSE_MAX;

    /// As many requests as a server has connections.
    const MANY: usize = 40_000;

    #[tokio::test(start_paused = true)]
    async fn a_state_that_does_not_answer_holds_nobody_for_longer_than_two_reads() {
        let (reads, receiver) = mpsc::unbounded_channel();
        let known = Arc::<Known>::default();
        tokio::spawn(read_for_all(
            pending::<Result<Versions>>,
            receiver,
            Arc::clone(&known),
        ));
        let reader = Arc::new(VersionReader::Remote { reads, known });
        let began = Instant::now();
        let first = reader.read();
        let others = async {
            tokio::time::sleep(Duration::from_millis(1)).await; // the first read runs
            let mut others = JoinSet::new();
            for _ in 0..MANY {
                let reader = Arc::clone(&reader);
                others.spawn(async move { reader.recent().await });
            }
            others.join_all().await
        };
        let all = async { tokio::join!(first, others) };
        let all = tokio::time::timeout(Duration::from_secs(3_600), all).await;
        let (first, others) = all.expect("all end");
        assert!(first.is_err() && others.iter().all(Result::is_err));
        assert!(began.elapsed() <= 2 * RESPONSE_MAX + Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_is_used_for_a_while_after_its_read_began_and_renewed_once() {
        let known = Known::default();
        let begun = Instant::now();
        assert_eq!(known.get(begun), None);
        let seven = Versions {
            rights: 7,
            names: 0,
        };
        known.set(begun, Some(seven));
        assert_eq!(known.get(begun), Some((seven, false)));
        assert_eq!(known.get(begun + RENEWED_AT), Some((seven, true)));
        assert_eq!(
            known.get(begun + RENEWED_AT),
            Some((seven, false)),
            "only once"
        );
        known.set(begun + RENEWED_AT, None); // the read has failed
        assert_eq!(known.get(begun + RENEWED_AT), Some((seven, true)));
        assert_eq!(known.get(begun + RECENT), None);
        assert!(OUTDATED_AFTER > RECENT);
    }
}
