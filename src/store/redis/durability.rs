//! The durability of an acknowledged push. It is up to the settings of the servers, which change
//! while they are used: a replica that takes over may have others, and an operator may set them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select_all;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::error::Result;
use crate::panics;
use crate::store::durability::Durability;
use crate::store::redis::link::managed::ManagedConnection;
use crate::store::redis::link::options::ConnectionOptions;
use crate::store::redis::link::preflight::infos;
use crate::store::redis::op::server_facts::ServerFacts;
use crate::store::redis::op::shared::Shared;
use crate::store::redis::preflight;

/// How often the settings are read where no connection is replaced.
const READ_EVERY: Duration = Duration::from_secs(60);

/// The pause after they could not be read.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What is known of it.
#[derive(Debug)]
pub(super) struct ServerDurability {
    read: Mutex<Durability>,
    /// How many connections had been made when it was read.
    made: AtomicU64,
    /// Whether the servers have said at the start what is set.
    says_settings: bool,
}

impl ServerDurability {
    /// Was read at the start, and is read again until the store is dropped.
    pub(super) fn watch(shared: &Arc<Shared>, found: &ServerFacts) -> Arc<Self> {
        let known = Arc::new(Self {
            read: Mutex::new(found.durability),
            made: AtomicU64::new(shared.links.made()),
            says_settings: found.says_settings,
        });
        let replaced = shared.links.of_pushes_and_work();
        let replaced = replaced.map(ManagedConnection::connections).collect();
        let options = ConnectionOptions::of(&shared.hub.target);
        options.spawn(run(
            Arc::downgrade(shared),
            Arc::downgrade(&known),
            replaced,
        ));
        known
    }

    /// Returns it, as far as is known.
    pub(super) fn get(&self) -> Durability {
        *self.read.lock()
    }

    /// Returns whether no connection was made since it was read.
    pub(super) fn is_certain(&self, shared: &Shared) -> bool {
        self.made.load(Ordering::Relaxed) == shared.links.made()
    }

    fn note(&self, now: Durability, made: u64) {
        let before = std::mem::replace(&mut *self.read.lock(), now);
        self.made.store(made, Ordering::Relaxed);
        if before != now {
            panics::reported(|| {
                tracing::warn!(
                    durability = %now,
                    %before,
                    "the durability that the servers offer has changed; receipts say so from now on"
                );
            });
        }
    }
}

/// Reads it when a connection was made, and now and then.
async fn run(
    shared: Weak<Shared>,
    known: Weak<ServerDurability>,
    mut replaced: Vec<watch::Receiver<u64>>,
) {
    let (mut pause, mut at) = (READ_EVERY, 0);
    loop {
        let changes = replaced.iter_mut().map(|made| Box::pin(made.changed()));
        match timeout(pause, select_all(changes)).await {
            Ok((Ok(()), made, _)) => at = made,
            Ok((Err(_), ..)) => return, // it was closed
            Err(_) => {}
        }
        let (Some(shared), Some(known)) = (shared.upgrade(), known.upgrade()) else {
            return;
        };
        // One that is made meanwhile may be to another server.
        let made = shared.links.made();
        let Some(link) = shared.links.of_pushes_and_work().nth(at) else {
            return;
        };
        pause = match read(link, known.says_settings).await {
            Ok(now) => {
                known.note(now, made);
                READ_EVERY
            }
            Err(_) => RETRY_AFTER, // whatever is wrong is said elsewhere
        };
    }
}

async fn read(link: &ManagedConnection, says_settings: bool) -> Result<Durability> {
    let infos = infos(link).await?;
    preflight::durability(link, &infos, says_settings).await
}
