//! Discovery of the current master through sentinels.
//!
//! Why not the package's Sentinel client (1.8): it reads the list of all masters where one is
//! wanted, and connects to that one twice, for its role and for use. Its connections have the
//! package's own timeouts instead of the store's.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ErrorKind as Theirs, IntoConnectionInfo, PushKind, RedisError,
    RedisResult, Value, cmd,
};
use tokio::time::timeout;

use super::{Connection, HEDGE, Pushes, accepted, client, dial, late, settings, tcp, unreachable};
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
    /// during a failover some do not know it yet. While one says nothing, the next is queried, too.
    pub(super) async fn connect(
        &self,
        sentinels: &[Address],
        pushes: Pushes,
    ) -> Result<Connection> {
        let (mut rest, mut last) = (sentinels.iter(), None);
        let mut tries = FuturesUnordered::new();
        loop {
            if let Some(sentinel) = rest.next() {
                let passage = Passage::before(pushes.clone());
                let said = passage.pushes();
                let trying = self.try_sentinel(sentinel, said);
                tries.push(async move { (sentinel, passage, trying.await) });
            }
            let ended = match rest.len() {
                0 => tries.next().await,
                _ => timeout(HEDGE, tries.next()).await.unwrap_or(None),
            };
            match ended {
                Some((_, passage, Ok(connection))) => {
                    passage.open();
                    return Ok(Connection::Single(connection));
                }
                Some((sentinel, _, Err(error))) => last = Some((sentinel, error)),
                None if rest.len() == 0 => break,
                None => {}
            }
        }
        let (sentinel, error) = last.ok_or_else(|| Error::invalid("no sentinel was named"))?;
        let place = format!("redis `{}` of sentinel {sentinel}", self.master);
        Err(unreachable(&place, error))
    }

    /// Returns whether any of them names a server, even a wrong one.
    pub(super) async fn is_known_to_any(&self, sentinels: &[Address]) -> bool {
        let queries = sentinels
            .iter()
            .map(|sentinel| timeout(self.options.connect_timeout, self.ask(sentinel)));
        let mut queries: FuturesUnordered<_> = queries.collect();
        while let Some(named) = queries.next().await {
            if matches!(named, Ok(Ok(_))) {
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

/// What one of several connections receives: it is passed on if that is the one which is used.
struct Passage(Arc<Mutex<PassageState>>, Pushes);

enum PassageState {
    Closed { has_ended: bool },
    Open,
}

impl Passage {
    fn before(pushes: Pushes) -> Self {
        Self(
            Arc::new(Mutex::new(PassageState::Closed { has_ended: false })),
            pushes,
        )
    }

    /// Returns the callback for the connection.
    fn pushes(&self) -> Pushes {
        let (state, pushes) = (Arc::clone(&self.0), self.1.clone());
        Pushes::new(move |push| {
            match &mut *state.lock() {
                PassageState::Closed { has_ended } => {
                    *has_ended |= push.kind == PushKind::Disconnection;
                    return;
                }
                PassageState::Open => {}
            }
            pushes.tell(push);
        })
    }

    /// Passes on what comes from now on, and the end if it has come.
    fn open(self) {
        let before = std::mem::replace(&mut *self.0.lock(), PassageState::Open);
        if matches!(before, PassageState::Closed { has_ended: true }) {
            self.1.disconnected();
        }
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
