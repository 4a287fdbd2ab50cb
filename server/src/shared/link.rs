//! The connection to the Redis of the shared state, by the same URLs as the stores of `duly`.

use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use redis::aio::{
    ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection,
};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    Client, Cmd, IntoConnectionInfo, Pipeline, RedisFuture, RedisResult, TlsCertificates, TlsMode,
    Value,
};
use tokio::sync::Mutex;

use super::{Result, StateError};

/// How long a command may take.
const TIMEOUT: Duration = Duration::from_secs(5);

#[allow(clippy::needless_pass_by_value)] // what `map_err` takes
fn failed(error: redis::RedisError) -> StateError {
    StateError::new("redis", &error)
}

/// What a URL says: that of the client, without the parameters that only `duly` knows, and these.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    url: String,
    pub(super) prefix: Option<String>,
    /// The file of an authority.
    ca: Option<String>,
    sentinel_user: Option<String>,
    sentinel_password: Option<String>,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let mut address = Self::default();
        let mut kept = Vec::new();
        for part in query.split('&') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match name {
                "db" | "user" | "password" | "pass" => kept.push(part),
                "prefix" => address.prefix = Some(decoded(value)?),
                "ca" => address.ca = Some(decoded(value)?),
                "sentinel_user" => address.sentinel_user = Some(decoded(value)?),
                "sentinel_password" => address.sentinel_password = Some(decoded(value)?),
                _ => {}
            }
        }
        address.url = match kept.is_empty() {
            true => place.to_owned(),
            false => format!("{place}?{}", kept.join("&")),
        };
        Ok(address)
    }

    fn certificates(&self) -> Result<Option<TlsCertificates>> {
        let Some(file) = &self.ca else {
            return Ok(None);
        };
        let pem = std::fs::read(file).map_err(|error| StateError::new(file, &error))?;
        Ok(Some(TlsCertificates {
            client_tls: None,
            root_cert: Some(pem),
        }))
    }

    /// Returns the scheme of one server, and the rest of the URL.
    fn split(&self, kind: &str) -> (String, &str) {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("redis", &self.url));
        (scheme.replace(kind, ""), rest.trim_end_matches('/'))
    }

    /// Returns the URL of each node of a cluster, with its login.
    fn nodes(&self) -> Vec<String> {
        let (scheme, rest) = self.split("-cluster");
        let (login, servers) = login(rest);
        let login = login.map(|login| format!("{login}@")).unwrap_or_default();
        let node = |server: &str| format!("{scheme}://{login}{server}");
        servers.split(',').map(node).collect()
    }

    fn sentinels(&self) -> Result<SentinelClient> {
        let (scheme, rest) = self.split("-sentinel");
        let (login, rest) = login(rest);
        let mut path = rest.split('/');
        let servers = path.next().unwrap_or_default().split(',');
        let name = path.next();
        let name = name.ok_or_else(|| StateError("a sentinel url names its master".to_owned()))?;
        let servers = servers.map(|server| {
            let info = format!("{scheme}://{server}");
            let info = info.as_str().into_connection_info();
            info.map(|info| info.addr().clone())
        });
        let servers = servers.collect::<RedisResult<Vec<_>>>().map_err(failed)?;
        let master = SentinelServerType::Master;
        let builder = SentinelClientBuilder::new(servers, name, master);
        let mut builder = builder.map_err(failed)?;
        if let Some(db) = path.next() {
            let number = db.parse();
            let number = number.map_err(|error| StateError::new("number of a database", &error))?;
            builder = builder.set_client_to_redis_db(number);
        }
        if let Some(login) = login {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            if !user.is_empty() {
                builder = builder.set_client_to_redis_username(decoded(user)?);
            }
            builder = builder.set_client_to_redis_password(decoded(password)?);
        }
        if let Some(user) = &self.sentinel_user {
            builder = builder.set_client_to_sentinel_username(user);
        }
        if let Some(password) = &self.sentinel_password {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if scheme == "rediss" {
            builder = builder
                .set_client_to_redis_tls_mode(TlsMode::Secure)
                .set_client_to_sentinel_tls_mode(TlsMode::Secure);
        }
        if let Some(certificates) = self.certificates()? {
            builder = builder
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_certificates(certificates);
        }
        builder.build().map_err(failed)
    }
}

fn decoded(text: &str) -> Result<String> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|error| StateError::new("url", &error))?;
    Ok(text.into_owned())
}

fn login(rest: &str) -> (Option<&str>, &str) {
    match rest.rsplit_once('@') {
        Some((login, servers)) => (Some(login), servers),
        None => (None, rest),
    }
}

/// Where the server is, and the connection to it, which heals by itself.
#[derive(Clone)]
pub(super) enum Link {
    Fixed(Connection),
    /// The master that sentinels name, asked for again after an error.
    Sentinel(Arc<Mutex<SentinelLink>>),
}

pub(super) struct SentinelLink {
    client: SentinelClient,
    connection: Option<MultiplexedConnection>,
}

/// A connection that many calls share.
#[derive(Clone)]
pub(super) enum Connection {
    One(ConnectionManager),
    Cluster(ClusterConnection),
    Master(MultiplexedConnection),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
            Self::Master(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(connection) => connection.req_packed_commands(commands, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(commands, offset, count),
            Self::Master(connection) => connection.req_packed_commands(commands, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
            Self::Master(connection) => connection.get_db(),
        }
    }
}

impl Link {
    pub(super) async fn open(address: &Address) -> Result<Self> {
        let url = address.url.as_str();
        let certificates = address.certificates()?;
        match url.split_once("://").map_or(url, |(scheme, _)| scheme) {
            "redis-cluster" | "rediss-cluster" => {
                let mut builder = ClusterClientBuilder::new(address.nodes())
                    .response_timeout(TIMEOUT)
                    .connection_timeout(TIMEOUT);
                if let Some(certificates) = certificates {
                    builder = builder.certs(certificates);
                }
                let client = builder.build().map_err(failed)?;
                let connection = client.get_async_connection().await.map_err(failed)?;
                Ok(Self::Fixed(Connection::Cluster(connection)))
            }
            "redis-sentinel" | "rediss-sentinel" => {
                let link = SentinelLink {
                    client: address.sentinels()?,
                    connection: None,
                };
                Ok(Self::Sentinel(Arc::new(Mutex::new(link))))
            }
            _ => {
                let client = match certificates {
                    Some(certificates) => Client::build_with_tls(url, certificates),
                    None => Client::open(url),
                };
                let config = ConnectionManagerConfig::new()
                    .set_response_timeout(Some(TIMEOUT))
                    .set_connection_timeout(Some(TIMEOUT));
                let client = client.map_err(failed)?;
                let manager = ConnectionManager::new_with_config(client, config).await;
                Ok(Self::Fixed(Connection::One(manager.map_err(failed)?)))
            }
        }
    }

    pub(super) async fn connection(&self) -> Result<Connection> {
        let link = match self {
            Self::Fixed(connection) => return Ok(connection.clone()),
            Self::Sentinel(link) => link,
        };
        let mut link = link.lock().await;
        if let Some(connection) = &link.connection {
            return Ok(Connection::Master(connection.clone()));
        }
        let connection = link.client.get_async_connection().await.map_err(failed)?;
        link.connection = Some(connection.clone());
        Ok(Connection::Master(connection))
    }

    /// Forgets the master after an error: it may be another one now.
    pub(super) async fn checked<T>(&self, value: redis::RedisResult<T>) -> Result<T> {
        if let (Err(_), Self::Sentinel(link)) = (&value, self) {
            link.lock().await.connection = None;
        }
        value.map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> Address {
        Address::parse(url).unwrap()
    }

    #[test]
    fn the_nodes_of_a_cluster_have_its_login() {
        let nodes = address("rediss-cluster://me:word@a,b:7001?ca=/ca.pem").nodes();
        assert_eq!(nodes, ["rediss://me:word@a", "rediss://me:word@b:7001"]);
    }

    #[test]
    fn what_only_duly_knows_is_taken_from_the_url() {
        let url = "redis+unix:///tmp/s.sock?db=1&prefix=t1&timeout=2s&ca=/my%20ca.pem";
        let expected = Address {
            url: "redis+unix:///tmp/s.sock?db=1".to_owned(),
            prefix: Some("t1".to_owned()),
            ca: Some("/my ca.pem".to_owned()),
            ..Address::default()
        };
        assert_eq!(address(url), expected);
    }

    #[test]
    fn a_url_of_sentinels_names_its_master() {
        assert!(address("redis-sentinel://a,b").sentinels().is_err());
        assert!(address("redis-sentinel://a,b:1/name").sentinels().is_ok());
        let all = "rediss-sentinel://me:word@a,b/name/2?sentinel_user=s&sentinel_password=t";
        assert!(address(all).sentinels().is_ok());
        assert!(address("redis-sentinel://a/name/x").sentinels().is_err());
    }
}
