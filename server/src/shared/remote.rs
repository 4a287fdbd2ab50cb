//! The shared state of many processes: hashes in a Redis, all in one slot of a cluster.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use duly::__server::redis::{Client, ClientOptions, ClientScript, Cmd, FromRedisValue, cmd, pipe};
use duly::time::Timestamp;

use super::remote_scripts::{
    ADD_LINE, ADD_LINE_OF_TOKEN, CHANGE, GIVE_BACK, NOTE, REMOVE_TOKEN, TAKE,
};
use super::remote_time::TimeAhead;
use super::versions::{VersionOf, Versions};
use super::{
    AUDIT_MAX, AuditLine, Call, NAMES_MAX, Result, StateError, Table, Trail, Window, behind,
};
use crate::clock;

/// The key of the names of queues: an ordered set, where those of tables are hashes.
const QUEUE_NAMES: &str = "queue-names";

/// The keys of the audit: a stream of the lines of operators; an ordered set of those of tokens, each behind
/// its number and its namespace; how many each namespace has; and up to where it was looked which go.
const AUDIT: &str = "audit";
const AUDIT_OF_TOKENS: &str = "audit-of-namespaces";
const AUDIT_COUNTS: &str = "audit-of-namespaces-counts";
const AUDIT_LOOKED: &str = "audit-of-namespaces-looked";

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
        "HINCRBY",
        "HLEN",
        "HSCAN",
        "HSET",
        "HSETNX",
        "INCR",
        "PEXPIRE",
        "PEXPIRETIME",
        "PTTL",
        "SET",
        "XADD",
        "XREVRANGE",
        "ZADD",
        "ZCARD",
        "ZLEXCOUNT",
        "ZRANGEBYLEX",
        "ZRANGEBYSCORE",
        "ZREM",
        "ZREMRANGEBYRANK",
        "ZREVRANGE",
        "ZREVRANGEBYSCORE",
        "ZSCORE",
    ],
};

/// The state, in a Redis.
#[derive(Clone, Debug)]
pub(super) struct RemoteState {
    client: Client,
    ahead: Arc<TimeAhead>,
}

impl RemoteState {
    pub(super) async fn open(url: &str) -> Result<Self> {
        let client = Client::open(url, OPTIONS).await.map_err(failed)?;
        Ok(Self {
            client,
            ahead: Arc::default(),
        })
    }

    async fn read<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        self.client.read(command).await.map_err(failed)
    }

    async fn count<T: FromRedisValue>(
        &self,
        script: &ClientScript,
        counter: &str,
        arguments: &[u64],
    ) -> Result<T> {
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
        if let Some(version) = table.version() {
            keys.push(self.key(version.name()));
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

    /// Reads the versions, and what time it is for all servers.
    pub(super) async fn versions(&self) -> Result<Versions> {
        let [key, of_names] = VersionOf::ALL.map(|version| self.key(version.name()));
        let mut read = pipe();
        read.cmd("GET").arg(&key);
        read.cmd("GET").arg(of_names);
        read.cmd("TIME");
        let read = self.client.read_all(self.client.master_of(&key), &read);
        let sent = clock::now();
        let read: (Option<u64>, Option<u64>, (u64, u64)) = read.await.map_err(failed)?;
        let (rights, names, (seconds, micros)) = read;
        let now_ms = seconds.saturating_mul(1_000).saturating_add(micros / 1_000);
        let now = Timestamp::from_millis(now_ms);
        self.ahead.note(now, sent, clock::now());
        Ok(Versions {
            rights: rights.unwrap_or_default(),
            names: names.unwrap_or_default(),
        })
    }

    /// How far the clock of the state is ahead of this server's, as of the last version.
    pub(super) fn ahead_ms(&self) -> i64 {
        self.ahead.ms()
    }

    pub(super) async fn get(&self, table: Table, key: &str) -> Result<Option<String>> {
        self.read(cmd("HGET").arg(self.key(table.name())).arg(key))
            .await
    }

    pub(super) async fn put(&self, table: Table, key: &str, value: &str) -> Result<()> {
        let changed = self.change(table, "HSET", &[[key, value]]).await;
        changed.map(drop)
    }

    /// Notes the name of a queue; returns false where its namespace has no room for it.
    pub(super) async fn note_queue(&self, namespace: &str, queue: &str) -> Result<bool> {
        let (name, most) = (format!("{namespace}{queue}"), NAMES_MAX.to_string());
        let (first, behind) = span(namespace);
        let arguments = [&name, &first, &behind, &most].map(|it| it.as_bytes());
        let keys = [self.key(QUEUE_NAMES)];
        let noted: Result<u64> = self
            .client
            .run(&NOTE, &keys, &arguments)
            .await
            .map_err(failed);
        Ok(noted? > 0)
    }

    /// Returns the names of queues that begin so, in their order.
    pub(super) async fn queues(&self, prefix: &str) -> Result<Vec<String>> {
        let (first, behind) = span(prefix);
        let mut command = cmd("ZRANGEBYLEX");
        command.arg(self.key(QUEUE_NAMES));
        self.read(command.arg(first).arg(behind)).await
    }

    pub(super) async fn forget_queue(&self, name: &str) -> Result<()> {
        let mut command = cmd("ZREM");
        let removed: Result<u64> = self
            .read(command.arg(self.key(QUEUE_NAMES)).arg(name))
            .await;
        removed.map(drop)
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

    pub(super) async fn remove_orphan(&self, (table, of): (Table, Table), key: &str) -> Result<()> {
        if self.get(of, key).await?.is_some() {
            return Ok(());
        }
        let mut command = cmd("HDEL");
        let removed: Result<u64> = self
            .read(command.arg(self.key(table.name())).arg(key))
            .await;
        removed.map(drop)
    }

    /// Removes a token, with what is kept of it, unless a row is given and the token's is another one;
    /// returns whether there was a token.
    pub(super) async fn remove_token(&self, key: &str, row: Option<&str>) -> Result<bool> {
        let mut keys = vec![
            self.key(Table::Tokens.name()),
            self.key(VersionOf::Rights.name()),
        ];
        keys.extend(Table::OF_TOKENS.map(|table| self.key(table.name())));
        let arguments = [Some(key), row].into_iter().flatten();
        let arguments: Vec<_> = arguments.map(str::as_bytes).collect();
        let removed: Result<u64> = self
            .client
            .run(&REMOVE_TOKEN, &keys, &arguments)
            .await
            .map_err(failed);
        Ok(removed? > 0)
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

    /// Returns some `limit` entries after a place, and the place after them, which is empty behind the
    /// last. An entry may come twice.
    pub(super) async fn some(
        &self,
        table: Table,
        after: &str,
        limit: usize,
    ) -> Result<(Vec<(String, String)>, String)> {
        const BOTH_ENDS: &str = "0";
        let mut command = cmd("HSCAN");
        let after = Some(after).filter(|after| !after.is_empty());
        command.arg(self.key(table.name()));
        command.arg(after.unwrap_or(BOTH_ENDS));
        command.arg("COUNT").arg(limit);
        let (next, entries): (String, Vec<(String, String)>) = self.read(&command).await?;
        let next = Some(next).filter(|next| next != BOTH_ENDS);
        Ok((entries, next.unwrap_or_default()))
    }

    pub(super) async fn take(&self, counter: &str, max: u64, window: Duration) -> Result<Call> {
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX).max(1);
        let arguments = [max, window_ms];
        Ok(match self.count(&TAKE, counter, &arguments).await? {
            (0, left_ms) => Call::Throttled(Duration::from_millis(left_ms)),
            (ends_ms, _) => Call::Counted(Window(ends_ms)),
        })
    }

    pub(super) async fn give_back(&self, counter: &str, Window(ends_ms): Window) -> Result<()> {
        let taken = self.count::<u64>(&GIVE_BACK, counter, &[ends_ms]).await;
        taken.map(drop)
    }

    pub(super) async fn audit(&self, trail: Trail<'_>, line: &str) -> Result<()> {
        let most = AUDIT_MAX.to_string();
        let (script, arguments) = match trail {
            Trail::Operators => (&ADD_LINE, vec![most.as_bytes(), line.as_bytes()]),
            Trail::Tokens(namespace) => (
                &ADD_LINE_OF_TOKEN,
                vec![most.as_bytes(), namespace.as_bytes(), line.as_bytes()],
            ),
        };
        let keys = [AUDIT, AUDIT_OF_TOKENS, AUDIT_COUNTS, AUDIT_LOOKED];
        let keys = keys.map(|key| self.key(key));
        let added: Result<u64> = self
            .client
            .run(script, &keys, &arguments)
            .await
            .map_err(failed);
        added.map(drop)
    }

    pub(super) async fn audit_lines(
        &self,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Vec<AuditLine>> {
        let end = before.map_or_else(|| "+".to_owned(), |before| format!("({before}"));
        let mut command = cmd("XREVRANGE");
        command.arg(self.key(AUDIT)).arg(end).arg("-");
        command.arg("COUNT").arg(limit);
        let of_operators: Vec<(String, Vec<(String, String)>)> = self.read(&command).await?;
        let of_operators = of_operators.into_iter();
        let of_operators = of_operators.filter_map(|(at, mut fields)| Some((at, fields.pop()?.1)));
        let end = before
            .and_then(place)
            .map(|(number, _)| format!("({number}"));
        let mut command = cmd("ZREVRANGEBYSCORE");
        command.arg(self.key(AUDIT_OF_TOKENS));
        command
            .arg(end.unwrap_or_else(|| "+inf".to_owned()))
            .arg("-inf");
        command.arg("LIMIT").arg(0).arg(limit);
        let of_tokens: Vec<String> = self.read(&command).await?;
        let of_tokens = of_tokens.into_iter().filter_map(|it| {
            let mut words = it.splitn(3, ' ');
            let (number, _of, line) = (words.next()?, words.next()?, words.next()?);
            Some((format!("{number}-0"), line.to_owned()))
        });
        let mut lines: Vec<AuditLine> = of_operators.chain(of_tokens).collect();
        lines.sort_by_cached_key(|(at, _)| Reverse(place(at)));
        lines.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(lines)
    }
}

/// Returns the bounds of the names that begin so, in the words of Redis.
fn span(prefix: &str) -> (String, String) {
    (format!("[{prefix}"), format!("({}", behind(prefix)))
}

/// Returns the numbers of the place of a line.
fn place(text: &str) -> Option<(u64, u64)> {
    let (number, part) = text.split_once('-')?;
    Some((number.parse().ok()?, part.parse().ok()?))
}

#[allow(clippy::needless_pass_by_value)] // what `map_err` takes
fn failed(error: duly::Error) -> StateError {
    StateError {
        is_full: error.kind() == duly::ErrorKind::Full,
        ..StateError::new("redis", &error)
    }
}
