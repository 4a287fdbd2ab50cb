//! The place of a benchmark: a folder or a prefix of its own, beside the data of others.

use std::path::{Path, PathBuf};

use duly::__server::redis::{Client, ClientOptions, Master, pipe};
use tokio::sync::watch;

use crate::command::error::{CommandError, Result};
use crate::signals::Signals;

/// How many keys a step of the removal looks at.
const SCAN_COUNT: usize = 1_000;

const OPTIONS: ClientOptions = ClientOptions {
    name: "duly-bench",
    tag: "raw",
    values: "events of the benchmark",
    commands: &["HDEL", "HMGET", "HSET", "UNLINK", "ZADD", "ZPOPMIN"],
};

/// A place, until a signal ends the work there.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) kind: PlaceKind,
    interrupted: watch::Receiver<bool>,
}

#[derive(Debug)]
pub(super) enum PlaceKind {
    /// A folder, which is removed at the end.
    Folder(PathBuf),
    /// A prefix of keys, which are removed at the end.
    Redis {
        url: String,
        prefix: String,
        client: Client,
    },
}

impl Place {
    pub(super) async fn new(url: &str) -> Result<Self> {
        // Before there is something that a signal would leave behind.
        let interrupted = interruption()?;
        let kind = PlaceKind::new(url).await?;
        Ok(Self { kind, interrupted })
    }

    /// Does some work, which fails when a signal ends it.
    pub(super) async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut interrupted = self.interrupted.clone();
        tokio::select! {
            done = work => done,
            _ = interrupted.wait_for(|it| *it) => Err(CommandError::failed("it was interrupted")),
        }
    }

    /// Returns the URL of a store here.
    pub(super) fn store_url(&self) -> String {
        match &self.kind {
            PlaceKind::Folder(folder) => format!("sqlite:{}", folder.join("store.db").display()),
            PlaceKind::Redis { url, prefix, .. } => with_prefix(url, prefix),
        }
    }

    /// Returns how many bytes it takes, of memory or of files.
    pub(super) async fn bytes(&self) -> Result<u64> {
        match &self.kind {
            PlaceKind::Folder(folder) => {
                let entries = std::fs::read_dir(folder)?;
                let sizes = entries.map(|entry| Ok(entry?.metadata()?.len()));
                Ok(sizes.sum::<std::io::Result<u64>>()?)
            }
            PlaceKind::Redis { client, .. } => {
                let (mut info, mut all) = (pipe(), 0);
                info.cmd("INFO").arg("memory");
                for master in client.masters().await? {
                    let [info]: [String; 1] = client.send_all(master, &info).await?;
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
        match &self.kind {
            PlaceKind::Folder(folder) => Ok(std::fs::remove_dir_all(folder)?),
            PlaceKind::Redis { client, prefix, .. } => {
                for master in client.masters().await? {
                    remove_keys(client, master, prefix).await?;
                }
                Ok(())
            }
        }
    }
}

/// Becomes true when the process is told to stop.
fn interruption() -> Result<watch::Receiver<bool>> {
    let signals = Signals::listen_for_end();
    let mut signals = signals
        .map_err(|error| CommandError::failed(format!("signals cannot be received: {error}")))?;
    let (interrupt, interrupted) = watch::channel(false);
    tokio::spawn(async move {
        signals.next().await;
        interrupt.send_replace(true);
    });
    Ok(interrupted)
}

impl PlaceKind {
    async fn new(url: &str) -> Result<Self> {
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
        if !url.starts_with("redis") || url.contains("prefix=") {
            return Err(CommandError::usage(format!(
                "`{url}` cannot be measured; give sqlite:FILE, redis://HOST or \
                 redis-cluster://HOSTS, without a prefix"
            )));
        }
        let client = Client::open(&with_prefix(url, &name), OPTIONS).await?;
        Ok(Self::Redis {
            url: url.to_owned(),
            prefix: name,
            client,
        })
    }
}

async fn remove_keys(client: &Client, master: Master, prefix: &str) -> Result<()> {
    let mut cursor = 0_u64;
    loop {
        let mut scan = pipe();
        scan.cmd("SCAN").arg(cursor).arg("MATCH");
        scan.arg(format!("{prefix}:*")).arg("COUNT").arg(SCAN_COUNT);
        let [(next, keys)]: [(u64, Vec<Vec<u8>>); 1] = client.send_all(master, &scan).await?;
        // One by one: in a cluster they have different slots.
        let mut removal = pipe();
        for key in &keys {
            removal.cmd("UNLINK").arg(key);
        }
        if !keys.is_empty() {
            client.send_all::<()>(master, &removal).await?;
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

/// Returns the URL of a store whose keys begin with `prefix`.
fn with_prefix(url: &str, prefix: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}prefix={prefix}")
}
