//! Where a benchmark works: a folder or a prefix of its own, beside the data of others.

use std::path::{Path, PathBuf};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

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
        connection: MultiplexedConnection,
    },
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
        let is_redis = ["redis:", "rediss:", "redis+unix:"]
            .iter()
            .any(|scheme| url.starts_with(scheme));
        if !is_redis || url.contains("prefix=") {
            return Err(CommandError::usage(format!(
                "`{url}` cannot be measured; give sqlite:FILE, or redis://HOST without a prefix"
            )));
        }
        // The library's own parameters mean nothing to a plain client.
        let plain = url.split('?').next().unwrap_or(url);
        let client = redis::Client::open(plain).map_err(wrong)?;
        let connection = client.get_multiplexed_async_connection().await;
        Ok(Self::Redis {
            url: url.to_owned(),
            prefix: name,
            connection: connection.map_err(wrong)?,
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
            Self::Redis { connection, .. } => {
                let (mut info, mut connection) = (redis::cmd("INFO"), connection.clone());
                let info = info.arg("memory").query_async(&mut connection);
                let info: String = info.await.map_err(wrong)?;
                let mut lines = info.lines();
                let used = lines.find_map(|line| line.strip_prefix("used_memory:"));
                let used = used.and_then(|used| used.trim().parse().ok());
                used.ok_or_else(|| CommandError::failed("INFO has no used_memory"))
            }
        }
    }

    /// Removes what was made here.
    pub(super) async fn remove(&self) -> Result<()> {
        match self {
            Self::Folder(folder) => Ok(std::fs::remove_dir_all(folder)?),
            Self::Redis {
                prefix, connection, ..
            } => {
                let mut connection = connection.clone();
                let mut cursor = 0_u64;
                loop {
                    let mut scan = redis::cmd("SCAN");
                    scan.arg(cursor).arg("MATCH").arg(format!("{prefix}*"));
                    scan.arg("COUNT").arg(SCAN_COUNT);
                    let (next, keys): (u64, Vec<Vec<u8>>) =
                        scan.query_async(&mut connection).await.map_err(wrong)?;
                    if !keys.is_empty() {
                        let _: u64 = connection.unlink(keys).await.map_err(wrong)?;
                    }
                    cursor = next;
                    if cursor == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` passes it
pub(super) fn wrong(error: redis::RedisError) -> CommandError {
    CommandError::new(Failure::Unavailable, format!("redis: {error}"))
}
