//! Connects to a target: one server, sentinels or a cluster.
//!
//! Why not the package's cluster client (1.8, and 2.0.0-rc.2 is the same there): it sends a call again after its connection broke and
//! does not tell that the first may have been executed, so a push would take its own first try for
//! a duplicate; and while one node is gone, it reads the slots anew for the calls of all nodes.

mod cluster;
mod node;
mod retry;
mod sentinel;
mod slots;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{AsyncPushSender, MultiplexedConnection, SendError};
use redis::cluster_routing::Slot;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    Pipeline, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisError, RedisResult,
    Value, cmd,
};
use tokio::time::{Instant, timeout, timeout_at};

use self::cluster::Cluster;
use self::sentinel::SentinelMaster;
pub(in crate::store::redis) use self::slots::SLOTS;
pub use self::slots::Slots;
use super::fault::{CallFailure, Stage};
use super::options::ConnectionOptions;
use super::url::{Address, Login, Place, Target};
use crate::error::{Error, Result};

/// After this time another server is asked as well.
const HEDGE: Duration = Duration::from_millis(100);

/// The bound of the request channel; further calls wait for a place.
const CALLS_QUEUED: usize = 1024;

/// A connection to a target.
#[derive(Clone)]
pub(in crate::store::redis) enum Connection {
    Single(MultiplexedConnection),
    Cluster(Cluster),
}

impl Connection {
    /// Sends one command. A refusal by the server is an error; a reply is not examined. Also
    /// returns whether an attempt before the last may have been executed.
    pub(in crate::store::redis) async fn ask(
        &mut self,
        command: &Cmd,
        deadline: Instant,
    ) -> (RedisResult<Value>, bool) {
        match self {
            Self::Single(connection) => {
                let reply = reply_by(deadline, connection.send_packed_command(command)).await;
                (reply.and_then(accepted), false)
            }
            // Boxed, as it is far larger than the call to one server, which every call would carry.
            Self::Cluster(cluster) => Box::pin(cluster.ask(command, deadline)).await,
        }
    }

    /// Sends one command to every reachable node.
    pub(in crate::store::redis) async fn ask_everywhere(
        &mut self,
        command: &Cmd,
        deadline: Instant,
    ) -> RedisResult<Vec<Value>> {
        match self {
            Self::Single(_) => Ok(vec![self.ask(command, deadline).await.0?]),
            Self::Cluster(cluster) => cluster.ask_everywhere(command, deadline).await,
        }
    }

    /// Sends several commands in one pipeline, in a cluster to the node that has `slot`. A refused
    /// command has its error as its reply. Also returns whether an attempt before the last may have
    /// been executed.
    pub(in crate::store::redis) async fn ask_all(
        &mut self,
        commands: &Pipeline,
        slot: Option<Slot>,
        deadline: Instant,
    ) -> (RedisResult<Vec<Value>>, bool) {
        match self {
            Self::Single(connection) => {
                let asking = connection.send_packed_commands(commands, 0, commands.len());
                (reply_by(deadline, asking).await, false)
            }
            Self::Cluster(cluster) => Box::pin(cluster.ask_all(commands, slot, deadline)).await,
        }
    }

    /// Returns the node of a cluster that has a slot, as far as is known.
    pub(in crate::store::redis) fn node_of(&self, slot: Slot) -> Option<Address> {
        match self {
            Self::Single(_) => None,
            Self::Cluster(cluster) => cluster.owner(Some(slot)),
        }
    }
}

/// Waits for a reply until a time.
async fn reply_by<T>(
    deadline: Instant,
    reply: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    timeout_at(deadline, reply)
        .await
        .unwrap_or_else(|_| Err(late()))
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single(_) => "Single",
            Self::Cluster(_) => "Cluster",
        })
    }
}

/// Returns the reply, or its error: the package returns error replies as values.
pub(in crate::store::redis) fn accepted(reply: Value) -> RedisResult<Value> {
    match reply {
        Value::ServerError(error) => Err(error.into()),
        reply => Ok(reply),
    }
}

/// A callback for push messages of a server, and for the end of a connection.
///
/// The task that reads the socket calls it, so it must not block.
#[derive(Clone)]
pub(in crate::store::redis) struct Pushes(Arc<dyn Fn(PushInfo) + Send + Sync>);

impl Pushes {
    pub(in crate::store::redis) fn new(
        callback: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(callback))
    }

    fn tell(&self, push: PushInfo) {
        (self.0)(push);
    }

    /// Reports the end of a connection that was closed here.
    fn disconnected(&self) {
        self.tell(PushInfo {
            kind: PushKind::Disconnection,
            data: Vec::new(),
        });
    }
}

impl AsyncPushSender for Pushes {
    fn send(&self, info: PushInfo) -> std::result::Result<(), SendError> {
        (self.0)(info);
        Ok(())
    }
}

/// Connects to `target`: for sentinels to the current master.
///
/// # Errors
///
/// [`Unavailable`](crate::ErrorKind::Unavailable), or [`Invalid`](crate::ErrorKind::Invalid) when
/// it can never succeed.
pub(in crate::store::redis) async fn connect(
    target: &Target,
    options: &ConnectionOptions,
    pushes: Pushes,
) -> Result<Connection> {
    match &target.place {
        Place::Tcp(address) => one(target, options, tcp(target, address), pushes).await,
        Place::Unix(path) => one(target, options, ConnectionAddr::Unix(path.clone()), pushes).await,
        Place::Sentinel {
            sentinels,
            master,
            login,
        } => {
            let named = SentinelMaster {
                target,
                options,
                master,
                login,
            };
            named.connect(sentinels, pushes).await
        }
        Place::Cluster(nodes) => cluster::connect(target, options, nodes, pushes)
            .await
            .map(Connection::Cluster)
            .map_err(|error| unreachable(&target.to_string(), error)),
    }
}

/// Returns whether any sentinel of `target` names a master, even an unusable one; `false` without
/// sentinels.
pub(in crate::store::redis) async fn sentinels_name_a_master(target: &Target) -> bool {
    let Place::Sentinel {
        sentinels,
        master,
        login,
    } = &target.place
    else {
        return false;
    };
    let named = SentinelMaster {
        target,
        options: &ConnectionOptions::of(target),
        master,
        login,
    };
    named.is_known_to_any(sentinels).await
}

/// Connects to one node of `target`, with its login.
pub(in crate::store::redis) async fn node(
    target: &Target,
    options: &ConnectionOptions,
    address: &Address,
    pushes: Pushes,
) -> Result<MultiplexedConnection> {
    let dialled = dial(target, options, tcp(target, address), pushes).await;
    dialled.map_err(|error| unreachable(&format!("redis at {address}"), error))
}

async fn one(
    target: &Target,
    options: &ConnectionOptions,
    address: ConnectionAddr,
    pushes: Pushes,
) -> Result<Connection> {
    let dialled = dial(target, options, address, pushes).await;
    dialled
        .map(Connection::Single)
        .map_err(|error| unreachable(&place_of(target), error))
}

/// Formats `target`, with its database if it has one.
fn place_of(target: &Target) -> String {
    match target.database {
        0 => target.to_string(),
        database => format!("{target}, database {database}"),
    }
}

/// Returns the error for a single connection to a cluster.
pub(in crate::store::redis) fn is_a_cluster(target: &Target) -> Error {
    Error::invalid(format!("{target} has no single connection"))
}

/// Returns the error for a failed attempt.
fn unreachable(place: &str, error: RedisError) -> Error {
    CallFailure::new(error, Stage::Connecting).error(place)
}

fn tcp(target: &Target, address: &Address) -> ConnectionAddr {
    let Address { host, port } = address.clone();
    match target.tls {
        None => ConnectionAddr::Tcp(host, port),
        Some(_) => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        },
    }
}

/// Opens one connection that speaks RESP3 and has a name.
async fn dial(
    target: &Target,
    options: &ConnectionOptions,
    address: ConnectionAddr,
    pushes: Pushes,
) -> RedisResult<MultiplexedConnection> {
    let login = settings(&target.login, target.database);
    let info = address.into_connection_info()?.set_redis_settings(login);
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(CALLS_QUEUED)
        .set_push_sender(pushes);
    let dialling = async {
        let mut connection = client(target, info, options)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        // The name only helps operators, and a user may lack the permission to set it.
        let _ = connection.send_packed_command(&name(options)).await?;
        Ok(connection)
    };
    timeout(options.connect_timeout, dialling)
        .await
        .map_err(|_| late())?
}

fn client(
    target: &Target,
    info: ConnectionInfo,
    options: &ConnectionOptions,
) -> RedisResult<Client> {
    let settings = TcpSettings::default().set_nodelay(true);
    // What was sent and never arrived ends the connection with its first call: a server that hangs
    // still acknowledges it.
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(options.timeout);
    #[cfg(not(any(target_os = "android", target_os = "fuchsia", target_os = "linux")))]
    let _ = options; // the probes alone find it out there
    let info = info.set_tcp_settings(settings);
    match &target.tls {
        #[cfg(feature = "tls")]
        Some(tls) => tls::client(info, tls),
        _ => Client::open(info), // refuses a URL with TLS
    }
}

fn settings(login: &Login, database: i64) -> RedisConnectionInfo {
    let mut settings = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_lib_name("duly", env!("CARGO_PKG_VERSION"))
        .set_db(database);
    if let Some(user) = &login.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &login.password {
        settings = settings.set_password(password);
    }
    settings
}

fn name(options: &ConnectionOptions) -> Cmd {
    let mut name = cmd("CLIENT");
    name.arg("SETNAME").arg(&options.name);
    name
}

/// Returns the error of a timeout.
pub(in crate::store::redis) fn late() -> RedisError {
    RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))
}
