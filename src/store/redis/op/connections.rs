//! The connections of a store.

use std::sync::Arc;

use crate::error::Result;
use crate::event::BucketKey;
use crate::store::redis::link::functions::FunctionUse;
use crate::store::redis::link::managed::ManagedConnection;
use crate::store::redis::link::options::ConnectionOptions;
use crate::store::redis::link::url::Target;

/// The connections of a store, separated so that no call waits behind a slow one.
pub(in crate::store::redis) struct StoreConnections {
    /// For pushes and administrative changes; the others live on a thread of their own.
    pushes: Vec<ManagedConnection>,
    /// For fetches and settlements.
    pub(in crate::store::redis) work: ManagedConnection,
    /// For heartbeats, and for reading those of others.
    pub(in crate::store::redis) pulse: ManagedConnection,
    /// For keys that all nodes share: one cluster node has them, and while it is unavailable no
    /// other call must wait.
    pub(in crate::store::redis) hub: ManagedConnection,
    pub(in crate::store::redis) functions: Arc<FunctionUse>,
}

impl StoreConnections {
    /// Connects.
    pub(in crate::store::redis) async fn open(target: &Target) -> Result<Self> {
        let options = ConnectionOptions::of(target);
        let link = |name: &str| {
            let options = options.clone().named(name);
            async move { ManagedConnection::open(target, &options).await }
        };
        let for_pushes = options.clone().named("duly-push").beside_callers();
        let mut pushes = Vec::new();
        for _ in 0..target.choices.connections.unwrap_or(1) {
            pushes.push(ManagedConnection::open(target, &for_pushes).await?);
        }
        Ok(Self {
            pushes,
            work: link("duly-work").await?,
            pulse: link("duly-pulse").await?,
            hub: ManagedConnection::new(target, options.clone().named("duly-hub")),
            functions: options.functions,
        })
    }

    /// Returns the connection that carries pushes to a bucket.
    pub(in crate::store::redis) fn for_pushes(&self, bucket: &BucketKey) -> &ManagedConnection {
        let at = usize::from(bucket.bucket.0) % self.pushes.len().max(1);
        self.pushes.get(at).unwrap_or(&self.work)
    }

    /// Returns the connections that carry pushes, fetches and settlements.
    pub(in crate::store::redis) fn of_pushes_and_work(
        &self,
    ) -> impl Iterator<Item = &ManagedConnection> {
        self.pushes.iter().chain([&self.work])
    }

    /// Counts the connections so far of those that carry pushes, fetches and settlements.
    pub(in crate::store::redis) fn made(&self) -> u64 {
        let made = self
            .of_pushes_and_work()
            .map(|link| *link.connections().borrow());
        made.sum()
    }

    pub(in crate::store::redis) fn close(&self) {
        for link in self.of_pushes_and_work().chain([&self.pulse, &self.hub]) {
            link.close();
        }
    }
}
