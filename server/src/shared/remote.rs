//! The shared state of many processes: hashes in a Redis, all in one slot of a cluster.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::aio::{
    ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection,
};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{Cmd, FromRedisValue, Pipeline, RedisFuture, Script, Value};
use tokio::sync::Mutex;

use super::{AUDIT_MAX, AuditLine, Result, StateError, Table};

/// How long a command may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The default prefix of keys; the URL's `prefix` comes before it.
const TAG: &str = "{duly-server}";

/// Takes one of `ARGV[1]` calls in a window of `ARGV[2]` ms that begins with its first call.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local taken = tonumber(redis.call('GET', KEYS[1]) or '0')
         if taken >= tonumber(ARGV[1]) then return 0 end
         redis.call('INCR', KEYS[1])
         if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
         return 1",
    )
});

/// Gives a call back, if its window is not over.
static GIVE_BACK: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local taken = tonumber(redis.call('GET', KEYS[1]) or '0')
         if taken > 0 then redis.call('DECR', KEYS[1]) end
         return taken",
    )
});

/// The state, in a Redis.
#[derive(Clone)]
pub(super) struct RemoteState {
    link: Link,
    prefix: Arc<str>,
}

/// Where the server is, and the connection to it, which heals by itself.
#[derive(Clone)]
enum Link {
    Fixed(Connection),
    /// The master that sentinels name, asked for again after an error.
    Sentinel(Arc<Mutex<SentinelLink>>),
}

struct SentinelLink {
    client: SentinelClient,
    connection: Option<MultiplexedConnection>,
}

/// A connection that many calls share.
#[derive(Clone)]
enum Connection {
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

impl fmt::Debug for RemoteState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteState")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[allow(clippy::needless_pass_by_value)] // what `map_err` takes
fn failed(error: redis::RedisError) -> StateError {
    StateError::new("redis", &error)
}

/// A URL without the parameters that only `duly` knows, and its key prefix.
fn parts(url: &str) -> (String, Option<String>) {
    let Some((place, query)) = url.split_once('?') else {
        return (url.to_owned(), None);
    };
    let (mut kept, mut prefix) = (Vec::new(), None);
    for part in query.split('&') {
        match part.split_once('=') {
            Some(("prefix", value)) => prefix = Some(value.to_owned()),
            Some(("db" | "user" | "password", _)) => kept.push(part),
            _ => {}
        }
    }
    match kept.is_empty() {
        true => (place.to_owned(), prefix),
        false => (format!("{place}?{}", kept.join("&")), prefix),
    }
}

impl RemoteState {
    pub(super) async fn open(url: &str) -> Result<Self> {
        let (url, prefix) = parts(url);
        let prefix = prefix.map_or_else(|| TAG.to_owned(), |prefix| format!("{prefix}:{TAG}"));
        Ok(Self {
            link: Link::open(&url).await?,
            prefix: prefix.into(),
        })
    }

    fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    async fn run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        let mut connection = self.link.connection().await?;
        let value = command.query_async(&mut connection).await;
        self.link.checked(value).await
    }

    async fn run_all<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T> {
        let mut connection = self.link.connection().await?;
        let value = commands.query_async(&mut connection).await;
        self.link.checked(value).await
    }

    async fn script(&self, script: &Script, counter: &str, arguments: &[u64]) -> Result<u64> {
        let mut call = script.key(self.key(&format!("count:{counter}")));
        for argument in arguments {
            call.arg(*argument);
        }
        let mut connection = self.link.connection().await?;
        let value = call.invoke_async(&mut connection).await;
        self.link.checked(value).await
    }

    /// A change of a table, with its version in the same step.
    async fn change<T: FromRedisValue>(&self, table: Table, command: Cmd) -> Result<T> {
        if !table.is_versioned() {
            return self.run(&command).await;
        }
        let mut both = redis::pipe();
        both.atomic()
            .add_command(command)
            .cmd("INCR")
            .arg(self.key("version"))
            .ignore();
        let (value,) = self.run_all::<(T,)>(&both).await?;
        Ok(value)
    }

    pub(super) async fn version(&self) -> Result<u64> {
        let version: Option<u64> = self.run(redis::cmd("GET").arg(self.key("version"))).await?;
        Ok(version.unwrap_or_default())
    }

    pub(super) async fn get(&self, table: Table, key: &str) -> Result<Option<String>> {
        self.run(redis::cmd("HGET").arg(self.key(table.name())).arg(key))
            .await
    }

    pub(super) async fn put(&self, table: Table, key: &str, value: &str) -> Result<()> {
        let mut command = redis::cmd("HSET");
        command.arg(self.key(table.name())).arg(key).arg(value);
        self.change::<i64>(table, command).await.map(drop)
    }

    pub(super) async fn put_new(&self, table: Table, key: &str, value: &str) -> Result<bool> {
        let mut command = redis::cmd("HSETNX");
        command.arg(self.key(table.name())).arg(key).arg(value);
        self.change(table, command).await
    }

    pub(super) async fn remove(&self, table: Table, key: &str) -> Result<()> {
        let mut command = redis::cmd("HDEL");
        command.arg(self.key(table.name())).arg(key);
        self.change::<i64>(table, command).await.map(drop)
    }

    pub(super) async fn list(&self, table: Table, prefix: &str) -> Result<Vec<(String, String)>> {
        let all: Vec<(String, String)> = self
            .run(redis::cmd("HGETALL").arg(self.key(table.name())))
            .await?;
        let mut entries: Vec<_> = all
            .into_iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .collect();
        entries.sort_unstable();
        Ok(entries)
    }

    pub(super) async fn take(&self, counter: &str, max: u64, window: Duration) -> Result<bool> {
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX).max(1);
        Ok(self.script(&TAKE, counter, &[max, window_ms]).await? == 1)
    }

    pub(super) async fn give_back(&self, counter: &str) -> Result<()> {
        self.script(&GIVE_BACK, counter, &[]).await.map(drop)
    }

    pub(super) async fn audit(&self, line: &str) -> Result<()> {
        let mut command = redis::cmd("XADD");
        command
            .arg(self.key("audit"))
            .arg("MAXLEN")
            .arg("~")
            .arg(AUDIT_MAX)
            .arg("*")
            .arg("line")
            .arg(line);
        self.run::<String>(&command).await.map(drop)
    }

    pub(super) async fn audit_lines(
        &self,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Vec<AuditLine>> {
        let mut command = redis::cmd("XREVRANGE");
        let end = before.map_or_else(|| "+".to_owned(), |before| format!("({before}"));
        command.arg(self.key("audit")).arg(end).arg("-");
        command.arg("COUNT").arg(limit);
        let lines: Vec<(String, Vec<(String, String)>)> = self.run(&command).await?;
        let lines = lines.into_iter();
        let lines = lines.filter_map(|(place, mut fields)| Some((place, fields.pop()?.1)));
        Ok(lines.collect())
    }
}

impl Link {
    async fn open(url: &str) -> Result<Self> {
        let scheme = url.split_once("://").map_or(url, |(scheme, _)| scheme);
        match scheme {
            "redis-cluster" | "rediss-cluster" => {
                let nodes = nodes(url, "-cluster");
                let client = ClusterClientBuilder::new(nodes)
                    .response_timeout(TIMEOUT)
                    .connection_timeout(TIMEOUT)
                    .build()
                    .map_err(failed)?;
                let connection = client.get_async_connection().await.map_err(failed)?;
                Ok(Self::Fixed(Connection::Cluster(connection)))
            }
            "redis-sentinel" | "rediss-sentinel" => {
                let (servers, path) = url
                    .rsplit_once('/')
                    .ok_or_else(|| StateError("a sentinel url names its master".to_owned()))?;
                let client = SentinelClientBuilder::new(
                    nodes(servers, "-sentinel")
                        .iter()
                        .map(|node| {
                            redis::IntoConnectionInfo::into_connection_info(node.as_str())
                                .map(|info| info.addr().clone())
                        })
                        .collect::<redis::RedisResult<Vec<_>>>()
                        .map_err(failed)?,
                    path,
                    SentinelServerType::Master,
                )
                .and_then(SentinelClientBuilder::build)
                .map_err(failed)?;
                Ok(Self::Sentinel(Arc::new(Mutex::new(SentinelLink {
                    client,
                    connection: None,
                }))))
            }
            _ => {
                let client = redis::Client::open(url).map_err(failed)?;
                let config = ConnectionManagerConfig::new()
                    .set_response_timeout(Some(TIMEOUT))
                    .set_connection_timeout(Some(TIMEOUT));
                let manager = ConnectionManager::new_with_config(client, config).await;
                Ok(Self::Fixed(Connection::One(manager.map_err(failed)?)))
            }
        }
    }

    async fn connection(&self) -> Result<Connection> {
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
    async fn checked<T>(&self, value: redis::RedisResult<T>) -> Result<T> {
        if let (Err(_), Self::Sentinel(link)) = (&value, self) {
            link.lock().await.connection = None;
        }
        value.map_err(failed)
    }
}

/// The URL of each server that a URL names, with its login.
fn nodes(url: &str, kind: &str) -> Vec<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
    let scheme = scheme.replace(kind, "");
    let rest = rest.trim_end_matches('/');
    let (login, servers) = match rest.rsplit_once('@') {
        Some((login, servers)) => (format!("{login}@"), servers),
        None => (String::new(), rest),
    };
    let node = |server: &str| format!("{scheme}://{login}{server}");
    servers.split(',').map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_of_a_cluster_have_its_login() {
        let nodes = nodes("rediss-cluster://me:word@a,b:7001", "-cluster");
        assert_eq!(nodes, ["rediss://me:word@a", "rediss://me:word@b:7001"]);
    }

    #[test]
    fn the_prefix_is_taken_from_the_url() {
        let (url, prefix) = parts("redis+unix:///tmp/s.sock?db=1&prefix=t1&timeout=2s");
        assert_eq!(url, "redis+unix:///tmp/s.sock?db=1");
        assert_eq!(prefix.as_deref(), Some("t1"));
    }
}
