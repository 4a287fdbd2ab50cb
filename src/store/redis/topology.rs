//! From a target to a live connection.

use std::fmt;
use std::sync::Arc;

use redis::aio::{AsyncPushSender, MultiplexedConnection, SendError};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind as Theirs,
    IntoConnectionInfo, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, RedisResult,
    TlsCertificates, Value, cmd,
};
use tokio::time::timeout;

use super::fault::{Failure, Stage};
use super::options::LinkOptions;
use super::url::{Address, Login, Place, Target};
use crate::error::{Error, Result};

/// How often a cluster's client follows redirections and waits for one call. Together the waits
/// stay below half a second, so an answer is known long before a call's time is over.
const CLUSTER_RETRIES: u32 = 6;
const CLUSTER_WAIT_MS: std::ops::RangeInclusive<u64> = 10..=200;

/// How many calls may wait for the socket before further ones wait for them.
const CALLS_QUEUED: usize = 1024;

/// A connection to whatever a target names.
#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Sends one command. What the server refused is an error, what it answered is not looked
    /// into.
    pub(super) async fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        let answer = match self {
            Self::Single(connection) => connection.send_packed_command(command).await?,
            Self::Cluster(connection) => {
                use redis::aio::ConnectionLike;
                connection.req_packed_command(command).await?
            }
        };
        accepted(answer)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single(_) => "Single",
            Self::Cluster(_) => "Cluster",
        })
    }
}

/// The answer, unless it is an error: the package hands those out as answers.
pub(super) fn accepted(answer: Value) -> RedisResult<Value> {
    match answer {
        Value::ServerError(error) => Err(error.into()),
        answer => Ok(answer),
    }
}

/// Told of everything that a server says without being asked, and of the end of a connection.
///
/// It is called by the task that reads the socket, so it must not wait.
#[derive(Clone)]
pub(super) struct Pushes(Arc<dyn Fn(PushInfo) + Send + Sync>);

impl Pushes {
    pub(super) fn new(told: impl Fn(PushInfo) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }
}

impl AsyncPushSender for Pushes {
    fn send(&self, info: PushInfo) -> std::result::Result<(), SendError> {
        (self.0)(info);
        Ok(())
    }
}

/// Connects to what `target` names: for sentinels to the master of this moment.
///
/// # Errors
///
/// [`Unavailable`](crate::ErrorKind::Unavailable), or [`Invalid`](crate::ErrorKind::Invalid) when
/// it can never succeed.
pub(super) async fn connect(
    target: &Target,
    options: &LinkOptions,
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
            let named = Named {
                target,
                options,
                master,
                login,
            };
            named.connect(sentinels, pushes).await
        }
        Place::Cluster(nodes) => cluster(target, options, nodes, pushes).await,
    }
}

/// Connects to one node of what `target` names, with its login.
pub(super) async fn node(
    target: &Target,
    options: &LinkOptions,
    address: &Address,
    pushes: Pushes,
) -> Result<MultiplexedConnection> {
    let dialled = dial(target, options, tcp(target, address), pushes).await;
    dialled.map_err(|error| unreachable(&format!("redis at {address}"), error))
}

async fn one(
    target: &Target,
    options: &LinkOptions,
    address: ConnectionAddr,
    pushes: Pushes,
) -> Result<Connection> {
    let dialled = dial(target, options, address, pushes).await;
    dialled
        .map(Connection::Single)
        .map_err(|error| unreachable(&target.to_string(), error))
}

/// What a failed attempt is to the caller.
fn unreachable(place: &str, error: RedisError) -> Error {
    Failure::new(error, Stage::Connecting).error(place)
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

/// One connection that speaks RESP3 and has a name.
async fn dial(
    target: &Target,
    options: &LinkOptions,
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
        let mut connection = client(target, info)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        // Only a help for operators, and a user may be allowed everything but this.
        let _ = connection.send_packed_command(&name(options)).await?;
        Ok(connection)
    };
    timeout(options.connect_timeout, dialling)
        .await
        .map_err(|_| late())?
}

fn client(target: &Target, info: ConnectionInfo) -> RedisResult<Client> {
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    match certificates(target)? {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
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

fn name(options: &LinkOptions) -> Cmd {
    let mut name = cmd("CLIENT");
    name.arg("SETNAME").arg(&options.name);
    name
}

/// What TLS needs, where it is wanted.
///
/// The package takes the process's default cipher provider, and panics where there is none or
/// several could be meant, so one is installed unless the program has chosen its own.
fn certificates(target: &Target) -> RedisResult<Option<TlsCertificates>> {
    let Some(tls) = &target.tls else {
        return Ok(None);
    };
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only if another thread was faster, and then there is one as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let read = |path: &std::path::PathBuf| {
        std::fs::read(path).map_err(|error| {
            let file = format!("{}: {error}", path.display());
            RedisError::from((
                Theirs::InvalidClientConfig,
                "the file of root certificates cannot be read",
                file,
            ))
        })
    };
    Ok(Some(TlsCertificates {
        client_tls: None,
        root_cert: tls.ca.as_ref().map(read).transpose()?,
    }))
}

/// A server that sentinels know by name.
struct Named<'a> {
    target: &'a Target,
    options: &'a LinkOptions,
    master: &'a str,
    login: &'a Login,
}

impl Named<'_> {
    /// Asks one sentinel after the other, until one names a server that says itself that it is
    /// the master: in the middle of a failover some do not know yet.
    async fn connect(&self, sentinels: &[Address], pushes: Pushes) -> Result<Connection> {
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
            // A user who may not ask finds out by READONLY.
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
        let mut connection = client(self.target, info)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(self.master);
        let answer = accepted(connection.send_packed_command(&question).await?)?;
        let named: Option<(String, u16)> = redis::from_redis_value(answer)?;
        let (host, port) = named.ok_or_else(|| {
            RedisError::from((
                Theirs::MasterNameNotFoundBySentinel,
                "the sentinel knows no master of this name",
            ))
        })?;
        Ok(Address { host, port })
    }
}

/// Whether the answer to `ROLE` is that of a master; `None` where it is no answer.
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

async fn cluster(
    target: &Target,
    options: &LinkOptions,
    nodes: &[Address],
    pushes: Pushes,
) -> Result<Connection> {
    let connecting = async {
        let mut connection = cluster_client(target, options, nodes, pushes)?
            .get_async_connection()
            .await?;
        use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo};
        let everywhere = RoutingInfo::MultiNode((
            MultipleNodeRoutingInfo::AllNodes,
            Some(ResponsePolicy::AllSucceeded),
        ));
        // Only a help for operators; see `dial`.
        let _ = connection.route_command(name(options), everywhere).await;
        Ok(connection)
    };
    // Several nodes may have to be tried before one answers.
    let patience = options.connect_timeout * 2;
    timeout(patience, connecting)
        .await
        .unwrap_or_else(|_| Err(late()))
        .map(Connection::Cluster)
        .map_err(|error| unreachable(&target.to_string(), error))
}

fn cluster_client(
    target: &Target,
    options: &LinkOptions,
    nodes: &[Address],
    pushes: Pushes,
) -> RedisResult<ClusterClient> {
    let infos = nodes
        .iter()
        .map(|node| {
            let info = tcp(target, node).into_connection_info()?;
            Ok(info.set_redis_settings(settings(&target.login, 0)))
        })
        .collect::<RedisResult<Vec<_>>>()?;
    let mut builder = ClusterClientBuilder::new(infos)
        .retries(CLUSTER_RETRIES)
        .min_retry_wait(*CLUSTER_WAIT_MS.start())
        .max_retry_wait(*CLUSTER_WAIT_MS.end())
        .connection_timeout(options.connect_timeout)
        // One node that hangs is noticed while the call still has time for another.
        .response_timeout(options.attempt_timeout())
        .overall_response_timeout(None)
        .tcp_settings(TcpSettings::default().set_nodelay(true))
        .push_sender(pushes);
    if let Some(certificates) = certificates(target)? {
        builder = builder.certs(certificates);
    }
    builder.build()
}

fn late() -> RedisError {
    RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))
}
