//! The state that all nodes of a server share: tokens, limits, names of queues, the audit.
//!
//! It is a few tables of short texts. [`local`] keeps them in an SQLite file, for one process;
//! [`remote`] in a Redis. What changes who may do what also raises a version, and a copy in memory is
//! used only as long as it has that version; no number is a version twice, though a Redis is back with
//! older data. A node reads the version twenty times a second while it
//! is in use, and a change is confirmed when every node has read it: a revoked token has ended on all
//! of them when its revocation is confirmed, and requests wait for no read.

mod counters;
mod error;
mod file;
mod local;
mod local_audit;
mod own_file;
mod remote;
mod remote_scripts;
mod remote_time;
mod version;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use duly::time::Timestamp;

pub(crate) use self::error::StateError;
use self::local::LocalState;
use self::remote::RemoteState;
use self::version::VersionReader;
use self::versions::VersionOf;
pub(crate) use self::versions::Versions;
use crate::clock;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// Tokens, by pool, namespace and hash.
    Tokens,
    /// When tokens were last used.
    TokenUses,
    /// Limits of tokens.
    Limits,
    /// Queues that were published to, by pool and namespace; a set of names in a Redis.
    Queues,
    /// The jobs that lmstfy respawned: the id that clients know, the event that it means now, and since
    /// when.
    Respawned,
    /// Targets of webhooks, by pool, namespace and queue.
    Webhooks,
    /// Targets that have said that they are gone.
    WebhooksDisabled,
    /// When a queue was last forgotten, so that servers note it again.
    Forgotten,
    /// One entry, which is written to learn whether the state takes writes.
    Ready,
    /// The numbers of the last starts of servers.
    Starts,
}

impl Table {
    /// What is kept of a token beside its row.
    const OF_TOKENS: [Self; 2] = [Self::Limits, Self::TokenUses];

    const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::TokenUses => "token_uses",
            Self::Limits => "limits",
            Self::Queues => "queues",
            Self::Respawned => "respawned",
            Self::Webhooks => "webhooks",
            Self::WebhooksDisabled => "webhooks_disabled",
            Self::Forgotten => "forgotten",
            Self::Ready => "ready",
            Self::Starts => "starts",
        }
    }

    /// Returns the version that a change of it raises.
    const fn version(self) -> Option<VersionOf> {
        match self {
            Self::Tokens | Self::Limits | Self::Webhooks | Self::WebhooksDisabled => {
                Some(VersionOf::Rights)
            }
            Self::Forgotten => Some(VersionOf::Names),
            Self::TokenUses | Self::Queues | Self::Respawned | Self::Ready | Self::Starts => None,
        }
    }
}

/// A part of the audit, which has a bound of its own, so that what tokens do pushes no line of an
/// operator out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trail<'a> {
    /// What was done on the admin listener without a token.
    Operators,
    /// What was done with a token of a namespace of a pool. Each namespace has as many lines as another:
    /// one that has more loses its oldest first.
    Tokens(&'a str),
}

/// A result of the shared state.
pub(crate) type Result<T> = std::result::Result<T, StateError>;

/// How long a call of a shared state in another process may take, reconnecting included: requests
/// wait for it. A change that took longer may have been made all the same.
const RESPONSE_MAX: Duration = Duration::from_secs(3);

/// Bounds a call of a shared state in another process.
async fn within<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(RESPONSE_MAX, call).await {
        Ok(result) => result,
        Err(_) => Err(StateError::of(format!(
            "no response within {RESPONSE_MAX:?}"
        ))),
    }
}

/// The most names of queues of a namespace. Who makes a queue for each reply of a call goes on beyond
/// it, and these are not noted.
pub(crate) const NAMES_MAX: usize = 10_000;

/// Returns what is behind every text that begins with a prefix, which ends with a `/`.
fn behind(prefix: &str) -> String {
    format!("{}0", prefix.trim_end_matches('/'))
}

/// The shared state.
#[derive(Clone, Debug)]
pub(crate) struct SharedState {
    place: Place,
    version: Arc<VersionReader>,
}

#[derive(Clone, Debug)]
enum Place {
    Local(Arc<LocalState>),
    Remote(RemoteState),
}

impl SharedState {
    /// Opens the state of a URL: `memory:`, `sqlite:` and a file, or a Redis.
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let place = match url.split_once(':') {
            Some(("memory", _)) => Place::Local(Arc::new(LocalState::in_memory()?)),
            Some(("sqlite", file)) => {
                let file = file.strip_prefix("//").unwrap_or(file);
                Place::Local(Arc::new(LocalState::open(file)?))
            }
            _ => Place::Remote(RemoteState::open(url).await?),
        };
        let version = match &place {
            Place::Local(local) => VersionReader::local(local.versions()),
            Place::Remote(remote) => VersionReader::remote(remote.clone()),
        };
        Ok(Self {
            place,
            version: Arc::new(version),
        })
    }

    /// Reads the version, later than the call begins.
    pub(crate) async fn version(&self) -> Result<u64> {
        Ok(self.version.read().await?.rights)
    }

    /// Returns the version; that of an unconfirmed change may be missing.
    pub(crate) async fn recent_version(&self) -> Result<u64> {
        Ok(self.version.recent().await?.rights)
    }

    /// Returns the version of the names that were forgotten. A server of an earlier version that forgets
    /// one raises the other version, so both count.
    pub(crate) async fn recent_version_of_names(&self) -> Result<Versions> {
        self.version.recent().await
    }

    /// Returns the time by the clock of the state, which is one for all servers; a version must have
    /// been read.
    pub(crate) fn now(&self) -> Timestamp {
        let ahead_ms = match &self.place {
            Place::Local(_) => 0,
            Place::Remote(remote) => remote.ahead_ms(),
        };
        let now_ms = clock::now().as_millis().saturating_add_signed(ahead_ms);
        Timestamp::from_millis(now_ms)
    }

    /// Waits until every node goes by the changes made before this call, which then may be confirmed.
    pub(crate) async fn seen_by_all(&self) {
        self.version.outdated().await;
    }

    pub(crate) async fn get(&self, table: Table, key: &str) -> Result<Option<String>> {
        match &self.place {
            Place::Local(local) => local.get(table, key).await,
            Place::Remote(remote) => within(remote.get(table, key)).await,
        }
    }

    pub(crate) async fn put(&self, table: Table, key: &str, value: &str) -> Result<()> {
        match &self.place {
            Place::Local(local) => local.put(table, key, value).await.map(drop),
            Place::Remote(remote) => within(remote.put(table, key, value)).await,
        }
    }

    /// Puts a value of which little depends: nobody waits for a disk. Returns whether it will be there,
    /// as there may be too many of them.
    pub(crate) async fn put_soon(&self, table: Table, key: &str, value: &str) -> Result<bool> {
        match &self.place {
            Place::Local(local) => Ok(local.put_later(table, key, value)),
            Place::Remote(remote) => within(remote.put(table, key, value)).await.map(|()| true),
        }
    }

    /// Notes the name of a queue soon, as [`put_soon`](Self::put_soon) puts a value, and at most
    /// [`NAMES_MAX`] of a namespace, which is a pool and a name with a `/` at its end. What is called
    /// where there are as many learns it. Returns whether it will be decided.
    pub(crate) async fn note_queue(
        &self,
        namespace: &str,
        queue: &str,
        is_full: impl FnOnce() + Send + 'static,
    ) -> Result<bool> {
        match &self.place {
            Place::Local(local) => Ok(local.note_queue(namespace, queue, is_full)),
            Place::Remote(remote) => {
                if !within(remote.note_queue(namespace, queue)).await? {
                    is_full();
                }
                Ok(true)
            }
        }
    }

    /// Returns the names of queues that begin so, in their order.
    pub(crate) async fn queues(&self, prefix: &str) -> Result<Vec<String>> {
        match &self.place {
            Place::Local(local) => {
                let rows = local.list(Table::Queues, prefix).await?;
                Ok(rows.into_iter().map(|(key, _)| key).collect())
            }
            Place::Remote(remote) => within(remote.queues(prefix)).await,
        }
    }

    /// Removes the name of a queue.
    pub(crate) async fn forget_queue(&self, key: &str) -> Result<()> {
        match &self.place {
            Place::Local(local) => local.remove(Table::Queues, key).await,
            Place::Remote(remote) => within(remote.forget_queue(key)).await,
        }
    }

    /// Returns how often a value that was to be put soon was not.
    pub(crate) fn failures(&self) -> u64 {
        match &self.place {
            Place::Local(local) => local.failures(),
            Place::Remote(_) => 0,
        }
    }

    /// Puts a value unless the key has one; returns whether it did.
    pub(crate) async fn put_new(&self, table: Table, key: &str, value: &str) -> Result<bool> {
        match &self.place {
            Place::Local(local) => local.put_new(table, key, value).await,
            Place::Remote(remote) => within(remote.put_new(table, key, value)).await,
        }
    }

    /// Puts values in one step; with `only_new` those alone whose key has none.
    pub(crate) async fn put_all(
        &self,
        table: Table,
        entries: &[(String, String)],
        only_new: bool,
    ) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        match &self.place {
            Place::Local(local) => local.put_all(table, entries, only_new).await,
            Place::Remote(remote) => within(remote.put_all(table, entries, only_new)).await,
        }
    }

    pub(crate) async fn remove(&self, table: Table, key: &str) -> Result<()> {
        match &self.place {
            Place::Local(local) => local.remove(table, key).await,
            Place::Remote(remote) => within(remote.remove(table, key)).await,
        }
    }

    /// Removes what is noted of an entry that another table has no more, which nobody goes by: no
    /// version is raised, and in a file no lookup waits for it.
    pub(crate) async fn remove_orphan(&self, (table, of): (Table, Table), key: &str) -> Result<()> {
        match &self.place {
            Place::Local(local) => local.remove_orphan((table, of), key).await,
            Place::Remote(remote) => within(remote.remove_orphan((table, of), key)).await,
        }
    }

    /// Removes a token, its limit and its use in one step, with a row only if the token's is still that
    /// one; returns whether there was a token.
    pub(crate) async fn remove_token(&self, key: &str, row: Option<&str>) -> Result<bool> {
        match &self.place {
            Place::Local(local) => local.remove_token(key, row).await,
            Place::Remote(remote) => within(remote.remove_token(key, row)).await,
        }
    }

    /// Returns the entries whose key begins so, in the order of their keys.
    pub(crate) async fn list(&self, table: Table, prefix: &str) -> Result<Vec<(String, String)>> {
        match &self.place {
            Place::Local(local) => local.list(table, prefix).await,
            Place::Remote(remote) => within(remote.list(table, prefix)).await,
        }
    }

    /// Returns about `limit` entries after a place of an earlier call, or from the begin, and the place
    /// after them; it is empty behind the last.
    pub(crate) async fn some(
        &self,
        table: Table,
        after: &str,
        limit: usize,
    ) -> Result<(Vec<(String, String)>, String)> {
        match &self.place {
            Place::Local(local) => local.some(table, after, limit).await,
            Place::Remote(remote) => within(remote.some(table, after, limit)).await,
        }
    }

    /// Takes one of `max` calls in a window that begins with its first call.
    pub(crate) async fn take(&self, counter: &str, max: u64, window: Duration) -> Result<Call> {
        match &self.place {
            Place::Local(local) => Ok(local.take(counter, max, window)),
            Place::Remote(remote) => within(remote.take(counter, max, window)).await,
        }
    }

    /// Gives a taken call back, if its window is not over.
    pub(crate) async fn give_back(&self, counter: &str, window: Window) -> Result<()> {
        match &self.place {
            Place::Local(local) => {
                local.give_back(counter, window);
                Ok(())
            }
            Place::Remote(remote) => within(remote.give_back(counter, window)).await,
        }
    }

    /// Adds a line to the audit, which keeps the last ones of each trail.
    pub(crate) async fn audit(&self, trail: Trail<'_>, line: &str) -> Result<()> {
        match &self.place {
            Place::Local(local) => local.audit(trail, line).await,
            Place::Remote(remote) => within(remote.audit(trail, line)).await,
        }
    }

    /// Returns lines of the audit before a place, the newest first.
    pub(crate) async fn audit_lines(
        &self,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Vec<AuditLine>> {
        match &self.place {
            Place::Local(local) => local.audit_lines(before, limit).await,
            Place::Remote(remote) => within(remote.audit_lines(before, limit)).await,
        }
    }
}

/// A window of a counter, which no later one of it is equal to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window(u64);

/// What came of a call of which there are only so many in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// It was taken in this window.
    Counted(Window),
    /// There is none until the window ends, after so long.
    Throttled(Duration),
}

/// A line of the audit, after the place by which it is found.
pub(crate) type AuditLine = (String, String);

/// How many lines a trail of the audit keeps.
const AUDIT_MAX: usize = 100_000;
