//! The pools of a server, by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duly::config::Settings;
use duly::{Bus, Error, Result};
use futures_util::future::join_all;

use crate::bus::Pool;
use crate::clock::ManualClock;
use crate::settings::DEFAULT_POOL;

/// The pools.
#[derive(Clone, Debug)]
pub(crate) struct Pools(BTreeMap<String, Pool>);

impl Pools {
    /// Opens every pool.
    pub(crate) async fn open(
        urls: BTreeMap<String, String>,
        settings: &Settings,
        clock: Option<&Arc<ManualClock>>,
    ) -> Result<Self> {
        let mut pools = BTreeMap::new();
        for (name, url) in urls {
            let opened = Pool::open(&name, &url, settings.clone(), clock).await;
            let pool = opened.map_err(|error| {
                Error::new(
                    error.kind(),
                    format!("pool {name} cannot be opened: {error}"),
                )
                .because(error)
            })?;
            pools.insert(name, pool);
        }
        Ok(Self(pools))
    }

    /// Makes the default pool of a bus that runs already.
    pub(crate) fn of(bus: Bus) -> Result<Self> {
        let pool = Pool::of(DEFAULT_POOL, bus)?;
        Ok(Self(BTreeMap::from([(DEFAULT_POOL.to_owned(), pool)])))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Pool> {
        self.0.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.0.values()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Closes every pool, all at once, as each may take the grace period; reports what fails.
    pub(crate) async fn close(&self, grace: Duration) {
        let closes = self.iter().map(|pool| async move {
            if let Err(error) = pool.close(grace).await {
                tracing::error!(pool = pool.name(), %error, "pool did not close");
            }
        });
        join_all(closes).await;
    }
}
