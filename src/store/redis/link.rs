//! A connection to the servers that comes back by itself.

use redis::aio::MultiplexedConnection;

use crate::error::{Error, ErrorKind, Result};
use crate::store::redis::scripts::Script;

/// A connection to the servers.
#[derive(Clone)]
pub(super) struct Link {
    connection: MultiplexedConnection,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Link {
    pub(super) async fn open(url: &str) -> Result<Self> {
        let wrong = |error: redis::RedisError| {
            Error::new(ErrorKind::Unavailable, "redis cannot be reached").because(error)
        };
        let client = redis::Client::open(url).map_err(wrong)?;
        let connection = client
            .get_multiplexed_async_connection()
            .await
            .map_err(wrong)?;
        Ok(Self { connection })
    }

    /// Sends one command.
    pub(super) async fn send(&self, command: &redis::Cmd) -> Result<redis::Value> {
        let mut connection = self.connection.clone();
        connection
            .send_packed_command(command)
            .await
            .map_err(|error| Error::new(ErrorKind::Unknown, "redis did not answer").because(error))
    }

    /// Runs a script; where the server does not know it, gives it the script and runs it then.
    pub(super) async fn run(&self, script: &Script, call: &redis::Cmd) -> Result<redis::Value> {
        let mut connection = self.connection.clone();
        match connection.send_packed_command(call).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                let mut load = redis::cmd("SCRIPT");
                load.arg("LOAD").arg(script.text());
                self.send(&load).await?;
                self.send(call).await
            }
            Err(error) => {
                Err(Error::new(ErrorKind::Unknown, "redis did not answer").because(error))
            }
            Ok(value) => Ok(value),
        }
    }
}
