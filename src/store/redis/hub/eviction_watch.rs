//! Looks at the settings of the servers while a store is used: they may change after its start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::panics;
use crate::store::redis::link::managed::ManagedConnection;
use crate::store::redis::link::preflight::{infos, nothing_is_evicted};
use crate::store::redis::link::url::Target;

/// What is lost when a server evicts keys.
pub(in crate::store::redis) const VALUES: &str = "events";

/// What is known of the servers' settings.
#[derive(Debug, Default)]
pub(super) struct EvictionWatch {
    /// Whether it was logged that keys are evicted.
    evicts: Arc<AtomicBool>,
}

impl EvictionWatch {
    /// Looks at them, without being waited for.
    pub(super) fn watch(&self, link: &ManagedConnection, target: &Target) {
        let (link, target) = (link.clone(), target.clone());
        let evicts = Arc::clone(&self.evicts);
        tokio::spawn(async move {
            look(&link, &target, &evicts).await;
        });
    }
}

/// Logs a change.
pub(in crate::store::redis) async fn look(
    link: &ManagedConnection,
    target: &Target,
    evicts: &AtomicBool,
) {
    let Ok(infos) = infos(link).await else {
        return; // whatever is wrong is said elsewhere
    };
    let refused = infos
        .iter()
        .find_map(|info| nothing_is_evicted(info, target, VALUES).err());
    let was_said = evicts.swap(refused.is_some(), Ordering::Relaxed);
    panics::reported(|| match refused {
        Some(error) if !was_said => tracing::error!(%error, "events may be lost"),
        None if was_said => tracing::info!("no server throws keys away any more"),
        _ => {}
    });
}
