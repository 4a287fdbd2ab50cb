//! Discovery of the current master through sentinels.
//!
//! Why not the package's Sentinel client (1.8): it reads the list of all masters where one is
//! wanted, and connects to that one twice, for its role and for use. Its connections have the
//! package's own timeouts instead of the store's.

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ErrorKind as Theirs, IntoConnectionInfo, RedisError, RedisResult, Value,
    cmd,
};
use tokio::time::timeout;

use super::{Connection, Pushes, accepted, client, dial, late, settings, tcp, unreachable};
use crate::error::{Error, Result};
use crate::store::redis::link::options::ConnectionOptions;
use crate::store::redis::link::url::{Address, Login, Target};

/// A server by its name at the sentinels.
pub(super) struct SentinelMaster<'a> {
    pub(super) target: &'a Target,
    pub(super) options: &'a ConnectionOptions,
    pub(super) master: &'a str,
    pub(super) login: &'a Login,
}

impl SentinelMaster<'_> {
    /// Queries the sentinels in order, until one names a server that reports that it is the master:
    /// during a failover some do not know it yet.
    pub(super) async fn connect(
        &self,
        sentinels: &[Address],
        pushes: Pushes,
    ) -> Result<Connection> {
        let mut last = None;
        for sentinel in sentinels {
            match self.try_sentinel(sentinel, pushes.clone()).await {
                Ok(connection) => return Ok(Connection::Single(connection)),
                Err(error) => last = Some((sentinel, error)),
            }
        }
        let (sentinel, error) = last.ok_or_else(|| Error::invalid("no sentinel was named"))?;
        let place = format!("redis `{}` of sentinel {sentinel}", self.master);
        Err(unreachable(&place, error))
    }

    /// Returns whether any of them names a server, even a wrong one.
    pub(super) async fn is_known_to_any(&self, sentinels: &[Address]) -> bool {
        for sentinel in sentinels {
            let asking = timeout(self.options.connect_timeout, self.ask(sentinel));
            if matches!(asking.await, Ok(Ok(_))) {
                return true;
            }
        }
        false
    }

    async fn try_sentinel(
        &self,
        sentinel: &Address,
        pushes: Pushes,
    ) -> RedisResult<MultiplexedConnection> {
        let asking = self.ask(sentinel);
        let master = timeout(self.options.connect_timeout, asking)
            .await
            .map_err(|_| late())??;
        let address = tcp(self.target, &master);
        let mut connection = dial(self.target, self.options, address, pushes).await?;
        let question = cmd("ROLE");
        let asking = connection.send_packed_command(&question);
        let role = timeout(self.options.connect_timeout, asking)
            .await
            .map_err(|_| late())??;
        match is_master(&role) {
            // A user without permission for `ROLE` finds out by READONLY.
            Some(true) | None => Ok(connection),
            Some(false) => Err(RedisError::from((
                Theirs::Io,
                "the sentinel names a server that is not the master (yet)",
                master.to_string(),
            ))),
        }
    }

    async fn ask(&self, sentinel: &Address) -> RedisResult<Address> {
        let info = tcp(self.target, sentinel)
            .into_connection_info()?
            .set_redis_settings(settings(self.login, 0));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let mut connection = client(self.target, info, self.options)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(self.master);
        let reply = accepted(connection.send_packed_command(&question).await?)?;
        let named: Option<(String, u16)> = redis::from_redis_value(reply)?;
        let (host, port) = named.ok_or_else(|| {
            RedisError::from((
                Theirs::MasterNameNotFoundBySentinel,
                "the sentinel knows no master of this name",
            ))
        })?;
        Ok(Address { host, port })
    }
}

/// Returns whether the reply to `ROLE` is that of a master; `None` for an error.
fn is_master(role: &Value) -> Option<bool> {
    let Value::Array(parts) = role else {
        return None;
    };
    match parts.first()? {
        Value::BulkString(name) => Some(name == b"master"),
        Value::SimpleString(name) => Some(name == "master"),
        _ => None,
    }
}
