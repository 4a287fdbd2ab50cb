//! The shared state of many processes: hashes in a Redis, all in one slot of a cluster.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::{Cmd, FromRedisValue, Pipeline, Script};

use super::link::{Address, Link};
use super::{AUDIT_MAX, AuditLine, Result, Table};

/// The default prefix of keys; the URL's `prefix` comes before it.
const TAG: &str = "{duly-server}";

/// Takes one of `ARGV[1]` calls in a window of `ARGV[2]` ms that begins with its first call; returns
/// 0, or how many ms are left of a window in which there is none.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local taken = tonumber(redis.call('GET', KEYS[1]) or '0')
         if taken >= tonumber(ARGV[1]) then return math.max(redis.call('PTTL', KEYS[1]), 1) end
         redis.call('INCR', KEYS[1])
         if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
         return 0",
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

impl fmt::Debug for RemoteState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteState")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl RemoteState {
    pub(super) async fn open(url: &str) -> Result<Self> {
        let address = Address::parse(url)?;
        let prefix = address.prefix.as_ref();
        let prefix = prefix.map_or_else(|| TAG.to_owned(), |prefix| format!("{prefix}:{TAG}"));
        Ok(Self {
            link: Link::open(&address).await?,
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

    pub(super) async fn put_all(
        &self,
        table: Table,
        entries: &[(String, String)],
        only_new: bool,
    ) -> Result<()> {
        let mut all = redis::pipe();
        all.atomic();
        let command = if only_new { "HSETNX" } else { "HSET" };
        for (key, value) in entries {
            let put = all.cmd(command).arg(self.key(table.name()));
            put.arg(key).arg(value).ignore();
        }
        if table.is_versioned() {
            all.cmd("INCR").arg(self.key("version")).ignore();
        }
        self.run_all::<()>(&all).await
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

    pub(super) async fn take(
        &self,
        counter: &str,
        max: u64,
        window: Duration,
    ) -> Result<Option<Duration>> {
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX).max(1);
        let left_ms = self.script(&TAKE, counter, &[max, window_ms]).await?;
        Ok((left_ms > 0).then(|| Duration::from_millis(left_ms)))
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
