//! Connections to a server of PostgreSQL, encrypted as its URL says.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::PgError;
use super::tls;
use super::url::{Target, Tls};
use crate::error::{Error, Result};
use crate::panics;

/// How to connect to a server.
pub struct Connector {
    config: Config,
    mode: Tls,
    /// `None` if no certificate can be verified, and none has to be.
    tls: Option<MakeRustlsConnect>,
    timeout: Duration,
}

/// Leaves the address and the credentials out.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

impl Connector {
    pub(super) fn new(target: Target) -> Result<Self> {
        let tls = match (target.tls, target.roots.as_deref()) {
            (Tls::Never, _) => None,
            (Tls::Preferred, None) => tls::connector(None).ok(),
            (Tls::Preferred | Tls::Required, roots) => Some(tls::connector(roots)?),
        };
        if target.tls == Tls::Preferred && !target.is_local {
            panics::reported(|| {
                tracing::warn!(
                    place = target.place(),
                    "a connection to a database may be in the clear, password and payloads \
                     included: with `sslmode=prefer` whoever is on the way decides; write `require`"
                );
            });
        }
        Ok(Self {
            config: target.config,
            mode: target.tls,
            tls,
            timeout: target.connect_timeout,
        })
    }

    /// Parses the URL of a database in which a program has its own tables, and writes them: of several
    /// servers the primary is connected.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid), with a message that never shows the password.
    pub fn of_program(url: &str) -> Result<Self> {
        let mut target = Target::parse(url)?;
        if target.schema.is_some() || target.timeout.is_some() {
            return Err(Error::invalid(
                "`schema` and `timeout` are options of a journal's URL; tables of a program's are \
                 found by the `search_path` of the user: `alter role ... set search_path`",
            ));
        }
        if target.config.get_target_session_attrs() == TargetSessionAttrs::Any {
            let writes = TargetSessionAttrs::ReadWrite;
            target.config.target_session_attrs(writes);
        }
        Self::new(target)
    }

    /// The timeout of connecting, login included.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// The error of the last attempt.
    pub async fn connect(&self) -> Result<PgConnection, PgError> {
        let config = &self.config;
        let Some(tls) = self.tls.clone() else {
            let (client, connection) = config.connect(NoTls).await?;
            return Ok(PgConnection::new(client, connection));
        };
        match config.connect(tls).await {
            Ok((client, connection)) => Ok(PgConnection::new(client, connection)),
            // A reply of the server is final, encrypted or not.
            Err(fault) if self.mode == Tls::Required || is_reply(&fault) => Err(fault),
            Err(_) => {
                let (client, connection) = config.connect(NoTls).await?;
                Ok(PgConnection::new(client, connection))
            }
        }
    }
}

/// Whether a server has replied, one that does not write among them: that is found out after the login.
fn is_reply(fault: &PgError) -> bool {
    let source = fault.source().and_then(|it| it.downcast_ref::<io::Error>());
    let writes_not = source.is_some_and(|it| it.kind() == io::ErrorKind::PermissionDenied);
    fault.code().is_some() || writes_not
}

/// One connection. When it ends, so does its transaction.
#[derive(Debug)]
pub struct PgConnection {
    /// Its requests.
    pub client: Client,
    driver: AbortHandle,
}

impl PgConnection {
    fn new(
        client: Client,
        connection: impl Future<Output = Result<(), PgError>> + Send + 'static,
    ) -> Self {
        let driver = tokio::spawn(async move {
            if let Err(fault) = connection.await {
                panics::reported(|| {
                    tracing::debug!(%fault, "a connection to a database has ended");
                });
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
