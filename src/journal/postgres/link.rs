//! Connections: opened on demand, dropped after any failure.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use tokio_postgres::Client;

use super::connector::{Connector, PgConnection};
use super::fault::ErrorContext;
use super::schema;
use super::scope::Scope;
use super::url::Target;
use crate::error::{Error, Result};

/// The default timeout of a call, including all waits: longer than a checkpoint or a failover.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The server and how to connect to it.
pub(super) struct Server {
    connector: Connector,
    pub(super) scope: Scope,
    pub(super) place: String,
    /// The timeout of a call.
    pub(super) timeout: Duration,
}

impl Server {
    pub(super) fn new(target: Target) -> Result<Self> {
        let schema = target.schema.as_deref().unwrap_or("duly");
        let timeout = target.timeout.unwrap_or(CALL_TIMEOUT);
        Ok(Self {
            scope: Scope::new(schema, timeout),
            place: format!("{}, schema {schema}", target.place()),
            timeout,
            connector: Connector::new(target)?,
        })
    }

    pub(super) fn spot(&self, doing: &'static str) -> ErrorContext<'_> {
        let place = &self.place;
        ErrorContext { place, doing }
    }

    /// Connects, and finds or creates the tables.
    async fn link(&self) -> Result<PgConnection> {
        let spot = self.spot("cannot connect to");
        let connecting = timeout(self.connector.timeout(), self.connector.connect());
        let link = connecting.await.map_err(|_| spot.late())?;
        let mut link = link.map_err(|fault| spot.error(fault))?;
        schema::ensure(&mut link.client, &self.scope, spot).await?;
        Ok(link)
    }
}

/// A slot for one kind of call: one connection, for one call at a time.
#[derive(Default)]
pub(super) struct ConnectionSlot {
    link: Mutex<Option<PgConnection>>,
}

impl ConnectionSlot {
    /// Waits for its turn and returns the connection, or opens a new one.
    pub(super) async fn open(&self, server: &Server) -> Result<PooledConnection<'_>> {
        let slot = self.link.lock().await;
        self.hold(slot, server).await
    }

    async fn hold<'a>(
        &self,
        mut slot: MutexGuard<'a, Option<PgConnection>>,
        server: &Server,
    ) -> Result<PooledConnection<'a>> {
        let lives = slot.take().filter(|link| !link.client.is_closed());
        let link = match lives {
            Some(link) => link,
            None => server.link().await?,
        };
        Ok(PooledConnection { slot, link })
    }

    /// Closes the connection, after the call that uses it.
    pub(super) async fn close(&self) {
        *self.link.lock().await = None;
    }
}

/// Two slots of one kind, for two calls at a time; the second is used while the first is busy.
#[derive(Default)]
pub(super) struct ConnectionPool([ConnectionSlot; 2]);

impl ConnectionPool {
    /// Waits for a free slot and returns its connection, or opens a new one.
    pub(super) async fn open(&self, server: &Server) -> Result<PooledConnection<'_>> {
        let [first, second] = &self.0;
        tokio::select! {
            biased;
            slot = first.link.lock() => first.hold(slot, server).await,
            slot = second.link.lock() => second.hold(slot, server).await,
        }
    }

    /// Closes both connections, after the calls that use them.
    pub(super) async fn close(&self) {
        for door in &self.0 {
            door.close().await;
        }
    }
}

/// A connection in use. Unless it is kept at the end it is dropped, so that a connection with a
/// cancelled or failed call is never reused.
pub(super) struct PooledConnection<'a> {
    slot: MutexGuard<'a, Option<PgConnection>>,
    link: PgConnection,
}

impl PooledConnection<'_> {
    pub(super) fn client(&mut self) -> &mut Client {
        &mut self.link.client
    }

    /// Leaves the connection to the next call.
    pub(super) fn keep(mut self) {
        *self.slot = Some(self.link);
    }
}

/// Runs a call with a timeout.
pub(super) async fn within<T>(
    time: Duration,
    late: impl FnOnce() -> Error,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    timeout(time, call).await.unwrap_or_else(|_| Err(late()))
}
