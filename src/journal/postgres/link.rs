//! Connections: opened on demand, dropped after any failure.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls, Transaction};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::{ErrorContext, PgError};
use super::schema;
use super::tls;
use super::url::{Target, Tls};
use crate::error::{Error, Result};

/// The server and how to connect to it.
pub(super) struct Server {
    pub(super) target: Target,
    pub(super) scope: Scope,
    pub(super) place: String,
    /// `None` if no certificate can be verified, and none has to be.
    tls: Option<MakeRustlsConnect>,
}

impl Server {
    pub(super) fn new(target: Target) -> Result<Self> {
        let tls = match (target.tls, target.roots.as_deref()) {
            (Tls::Never, _) => None,
            (Tls::Preferred, None) => tls::connector(None).ok(),
            (Tls::Preferred | Tls::Required, roots) => Some(tls::connector(roots)?),
        };
        let place = target.place();
        if target.tls == Tls::Preferred && !target.is_local {
            tracing::warn!(
                %place,
                "the journal's connection may be in the clear, password and payloads included: \
                 with `sslmode=prefer` whoever is on the way decides; write `require`"
            );
        }
        let scope = Scope::new(&target);
        Ok(Self {
            place,
            target,
            scope,
            tls,
        })
    }

    pub(super) fn spot(&self, doing: &'static str) -> ErrorContext<'_> {
        let place = &self.place;
        ErrorContext { place, doing }
    }

    /// Connects, and finds or creates the tables.
    async fn link(&self) -> Result<PgConnection> {
        let spot = self.spot("cannot connect to");
        let connecting = timeout(self.target.connect_timeout, self.connect());
        let link = connecting.await.map_err(|_| spot.late())?;
        let mut link = link.map_err(|fault| spot.error(fault))?;
        schema::ensure(&mut link.client, &self.scope, spot).await?;
        Ok(link)
    }

    async fn connect(&self) -> Result<PgConnection, PgError> {
        let config = &self.target.config;
        let Some(tls) = self.tls.clone() else {
            let (client, connection) = config.connect(NoTls).await?;
            return Ok(PgConnection::new(client, connection));
        };
        match config.connect(tls).await {
            Ok((client, connection)) => Ok(PgConnection::new(client, connection)),
            // A reply of the server is final, encrypted or not.
            Err(fault) if self.target.tls == Tls::Required || fault.code().is_some() => Err(fault),
            Err(_) => {
                let (client, connection) = config.connect(NoTls).await?;
                Ok(PgConnection::new(client, connection))
            }
        }
    }
}

/// What a transaction that only reads sets as well. Each page is meant to scan one index, in order; a
/// plan that collects and sorts all rows is always wrong.
const READING: &str = "SET TRANSACTION READ ONLY; SET LOCAL enable_seqscan TO off; \
                       SET LOCAL enable_bitmapscan TO off";

/// The schema of the tables, and the settings of each transaction.
///
/// Every statement is in a transaction, and nothing is left behind in its session: a pooler such as
/// PgBouncer lends that to another program afterwards.
pub(super) struct Scope {
    pub(super) schema: String,
    settings: String,
}

impl Scope {
    /// A server that lost its client releases its locks.
    fn new(target: &Target) -> Self {
        let (schema, ms) = (target.schema.clone(), target.timeout.as_millis());
        let settings = format!(
            "SET LOCAL search_path TO \"{schema}\"; SET LOCAL client_min_messages TO warning; \
             SET LOCAL statement_timeout TO {ms}; SET LOCAL lock_timeout TO {ms}; \
             SET LOCAL idle_in_transaction_session_timeout TO {ms}; SET LOCAL jit TO off; \
             SET LOCAL max_parallel_workers_per_gather TO 0"
        );
        Self { schema, settings }
    }

    /// Begins a transaction.
    pub(super) async fn begin<'a>(
        &self,
        client: &'a mut Client,
    ) -> Result<Transaction<'a>, PgError> {
        let step = client.transaction().await?;
        step.batch_execute(&self.settings).await?;
        Ok(step)
    }

    /// Begins a transaction that only reads.
    pub(super) async fn begin_reading<'a>(
        &self,
        client: &'a mut Client,
    ) -> Result<Transaction<'a>, PgError> {
        let step = client.transaction().await?;
        let settings = format!("{READING}; {}", self.settings);
        step.batch_execute(&settings).await?;
        Ok(step)
    }
}

/// One connection. When it ends, so does its transaction.
#[derive(Debug)]
struct PgConnection {
    client: Client,
    driver: AbortHandle,
}

impl PgConnection {
    fn new(
        client: Client,
        connection: impl Future<Output = Result<(), PgError>> + Send + 'static,
    ) -> Self {
        let driver = tokio::spawn(async move {
            if let Err(fault) = connection.await {
                tracing::debug!(%fault, "journal connection closed");
            }
        });
        Self {
            client,
            driver: driver.abort_handle(),
        }
    }
}

impl Drop for PgConnection {
    fn drop(&mut self) {
        self.driver.abort();
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
