//! The shared state of many processes: hashes in a Redis, all in one slot of a cluster.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use duly::__server::redis::{Client, ClientOptions, ClientScript, Cmd, FromRedisValue, cmd, pipe};

use super::{AUDIT_MAX, AuditLine, Result, StateError, Table};
use crate::clock;

const OPTIONS: ClientOptions = ClientOptions {
    name: "duly-state",
    tag: "{duly-server}",
    values: "tokens",
    commands: &[
        "DECR",
        "GET",
        "HDEL",
        "HGET",
        "HGETALL",
        "HSET",
        "HSETNX",
        "INCR",
        "PEXPIRE",
        "PTTL",
        "XADD",
        "XREVRANGE",
    ],
};

/// Calls the command `ARGV[1]` on the hash `KEYS[1]` with each `ARGV[2]` of the further arguments,
/// and raises the version `KEYS[2]`, if there is one. Returns the sum of the replies.
static CHANGE: LazyLock<ClientScript> = LazyLock::new(|| {
    ClientScript::new(
        "local words = tonumber(ARGV[2])
         local changed = 0
         for at = 3, #ARGV, words do
           changed = changed + redis.call(ARGV[1], KEYS[1], unpack(ARGV, at, at + words - 1))
         end
         if KEYS[2] then redis.call('INCR', KEYS[2]) end
         return changed",
    )
});

/// Takes one of `ARGV[1]` calls in a window of `ARGV[2]` ms that begins with its first call; returns
/// 0, or how many ms are left of a window in which there is none.
static TAKE: LazyLock<ClientScript> = LazyLock::new(|| {
    ClientScript::new(
        "local taken = tonumber(redis.call('GET', KEYS[1]) or '0')
         if taken >= tonumber(ARGV[1]) then return math.max(redis.call('PTTL', KEYS[1]), 1) end
         redis.call('INCR', KEYS[1])
         if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
         return 0",
    )
});

/// Gives a call back, if its window is not over.
static GIVE_BACK: LazyLock<ClientScript> = LazyLock::new(|| {
    ClientScript::new(
        "local taken = tonumber(redis.call('GET', KEYS[1]) or '0')
         if taken > 0 then redis.call('DECR', KEYS[1]) end
         return taken",
    )
});

/// The state, in a Redis.
#[derive(Clone, Debug)]
pub(super) struct RemoteState {
    client: Client,
    ahead_ms: Arc<AtomicI64>,
}

impl RemoteState {
    pub(super) async fn open(url: &str) -> Result<Self> {
        let client = Client::open(url, OPTIONS).await.map_err(failed)?;
        Ok(Self {
            client,
            ahead_ms: Arc::default(),
        })
    }

    async fn read<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        self.client.read(command).await.map_err(failed)
    }

    async fn count(&self, script: &ClientScript, counter: &str, arguments: &[u64]) -> Result<u64> {
        let key = self.client.key(&format!("count:{counter}"));
        let arguments: Vec<_> = arguments.iter().map(u64::to_string).collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_bytes).collect();
        let counted = self.client.run(script, &[key], &arguments).await;
        counted.map_err(failed)
    }

    /// Calls a command on a table, once with each of `entries`, all in one step, which also raises
    /// the version. Returns how many entries were new, or are gone.
    async fn change<const WORDS: usize>(
        &self,
        table: Table,
        command: &str,
        entries: &[[&str; WORDS]],
    ) -> Result<u64> {
        let mut keys = vec![self.client.key(table.name())];
        if table.is_versioned() {
            keys.push(self.client.key("version"));
        }
        let words = WORDS.to_string();
        let mut arguments = vec![command.as_bytes(), words.as_bytes()];
        let entries = entries.as_flattened().iter();
        arguments.extend(entries.map(|word| word.as_bytes()));
        let changed = self.client.run(&CHANGE, &keys, &arguments).await;
        changed.map_err(failed)
    }

    fn key(&self, name: &str) -> String {
        self.client.key(name)
    }

    /// Reads the version, and what time it is for all servers.
    pub(super) async fn version(&self) -> Result<u64> {
        let key = self.key("version");
        let mut read = pipe();
        read.cmd("GET").arg(&key);
        read.cmd("TIME");
        let read = self.client.read_all(self.client.master_of(&key), &read);
        let read: (Option<u64>, (u64, u64)) = read.await.map_err(failed)?;
        let (version, (seconds, micros)) = read;
        let now_ms = seconds.saturating_mul(1_000).saturating_add(micros / 1_000);
        let ahead_ms = now_ms.cast_signed() - clock::now().as_millis().cast_signed();
        self.ahead_ms.store(ahead_ms, Ordering::Relaxed);
        Ok(version.unwrap_or_default())
    }

    /// How far the clock of the state is ahead of this server's, as of the last version.
    pub(super) fn ahead_ms(&self) -> i64 {
        self.ahead_ms.load(Ordering::Relaxed)
    }

    pub(super) async fn get(&self, table: Table, key: &str) -> Result<Option<String>> {
        self.read(cmd("HGET").arg(self.key(table.name())).arg(key))
            .await
    }

    pub(super) async fn put(&self, table: Table, key: &str, value: &str) -> Result<()> {
        let changed = self.change(table, "HSET", &[[key, value]]).await;
        changed.map(drop)
    }

    pub(super) async fn put_new(&self, table: Table, key: &str, value: &str) -> Result<bool> {
        let changed = self.change(table, "HSETNX", &[[key, value]]).await?;
        Ok(changed > 0)
    }

    pub(super) async fn put_all(
        &self,
        table: Table,
        entries: &[(String, String)],
        only_new: bool,
    ) -> Result<()> {
        let command = if only_new { "HSETNX" } else { "HSET" };
        let entries = entries.iter();
        let entries: Vec<_> = entries
            .map(|(key, value)| [key.as_str(), value.as_str()])
            .collect();
        self.change(table, command, &entries).await.map(drop)
    }

    pub(super) async fn remove(&self, table: Table, key: &str) -> Result<()> {
        let changed = self.change(table, "HDEL", &[[key]]).await;
        changed.map(drop)
    }

    pub(super) async fn list(&self, table: Table, prefix: &str) -> Result<Vec<(String, String)>> {
        let all: Vec<(String, String)> = self
            .read(cmd("HGETALL").arg(self.key(table.name())))
            .await?;
        let mut entries: Vec<_> = all
            .into_iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .collect();
        entries.sort_unstable();
        Ok(entries)
    }

    pub(super) async fn take(
        &self,
        counter: &str,
        max: u64,
        window: Duration,
    ) -> Result<Option<Duration>> {
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX).max(1);
        let left_ms = self.count(&TAKE, counter, &[max, window_ms]).await?;
        Ok((left_ms > 0).then(|| Duration::from_millis(left_ms)))
    }

    pub(super) async fn give_back(&self, counter: &str) -> Result<()> {
        self.count(&GIVE_BACK, counter, &[]).await.map(drop)
    }

    pub(super) async fn audit(&self, line: &str) -> Result<()> {
        let mut command = cmd("XADD");
        command
            .arg(self.key("audit"))
            .arg("MAXLEN")
            .arg("~")
            .arg(AUDIT_MAX)
            .arg("*")
            .arg("line")
            .arg(line);
        let line: Result<String> = self.client.send(&command).await.map_err(failed);
        line.map(drop)
    }

    pub(super) async fn audit_lines(
        &self,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Vec<AuditLine>> {
        let mut command = cmd("XREVRANGE");
        let end = before.map_or_else(|| "+".to_owned(), |before| format!("({before}"));
        command.arg(self.key("audit")).arg(end).arg("-");
        command.arg("COUNT").arg(limit);
        let lines: Vec<(String, Vec<(String, String)>)> = self.read(&command).await?;
        let lines = lines.into_iter();
        let lines = lines.filter_map(|(place, mut fields)| Some((place, fields.pop()?.1)));
        Ok(lines.collect())
    }
}

#[allow(clippy::needless_pass_by_value)] // what `map_err` takes
fn failed(error: duly::Error) -> StateError {
    StateError::new("redis", &error)
}
