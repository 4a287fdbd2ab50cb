//! Where a benchmark works: a folder or a prefix of its own, beside the data of others.

use std::path::{Path, PathBuf};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, Pipeline, RedisFuture, Value};

use crate::command::error::{CommandError, Failure, Result};

/// How many keys a step of the removal looks at.
const SCAN_COUNT: usize = 1_000;

#[derive(Debug)]
pub(super) enum Place {
    /// A folder, which is removed at the end.
    Folder(PathBuf),
    /// A prefix of keys, which are removed at the end.
    Redis {
        url: String,
        prefix: String,
        raw: Raw,
        /// A connection to each master.
        masters: Vec<MultiplexedConnection>,
    },
}

/// A connection of the client to one server or to a cluster.
#[derive(Clone)]
pub(super) enum Raw {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Raw {
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_cluster() {
            "Cluster"
        } else {
            "Server"
        })
    }
}

impl ConnectionLike for Raw {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(connection) => connection.req_packed_command(cmd),
            Self::Cluster(connection) => connection.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipe: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Server(connection) => connection.req_packed_commands(pipe, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(pipe, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Server(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}

impl Place {
    pub(super) async fn new(url: &str) -> Result<Self> {
        let name = format!("duly-bench-{:016x}", fastrand::u64(..));
        if let Some(file) = url.strip_prefix("sqlite:") {
            let file = Path::new(file.strip_prefix("//").unwrap_or(file));
            let folder = file.parent().unwrap_or(Path::new("")).join(name);
            std::fs::create_dir(&folder).map_err(|error| {
                let folder = folder.display();
                CommandError::failed(format!("the folder {folder} cannot be made: {error}"))
            })?;
            return Ok(Self::Folder(folder));
        }
        // The library's own parameters mean nothing to a plain client.
        let plain = url.split('?').next().unwrap_or(url);
        let (raw, masters) = match plain.split_once(':') {
            _ if url.contains("prefix=") => return Err(not_measured(url)),
            Some(("redis" | "rediss" | "redis+unix", _)) => {
                let connection = connect(plain).await?;
                (Raw::Server(connection.clone()), vec![connection])
            }
            Some((scheme @ ("redis-cluster" | "rediss-cluster"), hosts)) => {
                let scheme = scheme.trim_end_matches("-cluster");
                cluster(scheme, hosts.trim_start_matches('/')).await?
            }
            _ => return Err(not_measured(url)),
        };
        Ok(Self::Redis {
            url: url.to_owned(),
            prefix: name,
            raw,
            masters,
        })
    }

    /// Returns the URL of a store here.
    pub(super) fn store_url(&self) -> String {
        match self {
            Self::Folder(folder) => format!("sqlite:{}", folder.join("store.db").display()),
            Self::Redis { url, prefix, .. } => {
                let separator = if url.contains('?') { '&' } else { '?' };
                format!("{url}{separator}prefix={prefix}")
            }
        }
    }

    /// Returns how many bytes it takes, of memory or of files.
    pub(super) async fn bytes(&self) -> Result<u64> {
        match self {
            Self::Folder(folder) => {
                let entries = std::fs::read_dir(folder)?;
                let sizes = entries.map(|entry| Ok(entry?.metadata()?.len()));
                Ok(sizes.sum::<std::io::Result<u64>>()?)
            }
            Self::Redis { masters, .. } => {
                let mut all = 0;
                for master in masters {
                    let (mut info, mut master) = (redis::cmd("INFO"), master.clone());
                    let info = info.arg("memory").query_async(&mut master);
                    let info: String = info.await.map_err(wrong)?;
                    let mut lines = info.lines();
                    let used = lines.find_map(|line| line.strip_prefix("used_memory:"));
                    let used = used.and_then(|used| used.trim().parse::<u64>().ok());
                    all += used.ok_or_else(|| CommandError::failed("INFO has no used_memory"))?;
                }
                Ok(all)
            }
        }
    }

    /// Removes what was made here.
    pub(super) async fn remove(&self) -> Result<()> {
        match self {
            Self::Folder(folder) => Ok(std::fs::remove_dir_all(folder)?),
            Self::Redis {
                prefix, masters, ..
            } => {
                for master in masters {
                    remove_keys(master.clone(), prefix).await?;
                }
                Ok(())
            }
        }
    }
}

async fn remove_keys(mut master: MultiplexedConnection, prefix: &str) -> Result<()> {
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(format!("{prefix}*"));
        scan.arg("COUNT").arg(SCAN_COUNT);
        let (next, keys): (u64, Vec<Vec<u8>>) =
            scan.query_async(&mut master).await.map_err(wrong)?;
        // One by one: in a cluster they have different slots.
        let mut pipe = redis::pipe();
        for key in &keys {
            pipe.cmd("UNLINK").arg(key).ignore();
        }
        if !keys.is_empty() {
            let () = pipe.query_async(&mut master).await.map_err(wrong)?;
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

fn not_measured(url: &str) -> CommandError {
    CommandError::usage(format!(
        "`{url}` cannot be measured; give sqlite:FILE, redis://HOST or redis-cluster://HOSTS, \
         without a prefix"
    ))
}

async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let client = redis::Client::open(url).map_err(wrong)?;
    let connection = client.get_multiplexed_async_connection().await;
    connection.map_err(wrong)
}

/// Connects to a cluster, and to each of its masters; `hosts` may begin with a user and a password.
async fn cluster(scheme: &str, hosts: &str) -> Result<(Raw, Vec<MultiplexedConnection>)> {
    let (user, hosts) = match hosts.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), hosts),
    };
    let urls: Vec<_> = hosts
        .split(',')
        .map(|host| format!("{scheme}://{user}{host}"))
        .collect();
    let client = ClusterClient::new(urls.clone()).map_err(wrong)?;
    let raw = client.get_async_connection().await.map_err(wrong)?;
    let mut first = connect(&urls[0]).await?; // a split returns at least one
    let mut nodes = redis::cmd("CLUSTER");
    let nodes = nodes.arg("NODES").query_async(&mut first).await;
    let nodes: String = nodes.map_err(wrong)?;
    let mut masters = Vec::new();
    for node in nodes.lines() {
        let mut words = node.split(' ');
        let (address, flags) = (words.nth(1).unwrap_or(""), words.next().unwrap_or(""));
        let is_master = flags.split(',').any(|flag| flag == "master");
        if let Some((address, _)) = address.split_once('@')
            && is_master
            && !flags.contains("fail")
        {
            masters.push(connect(&format!("{scheme}://{user}{address}")).await?);
        }
    }
    Ok((Raw::Cluster(raw), masters))
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` passes it
pub(super) fn wrong(error: redis::RedisError) -> CommandError {
    CommandError::new(Failure::Unavailable, format!("redis: {error}"))
}
