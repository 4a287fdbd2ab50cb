//! Limits: how many calls a token may make in a window of time.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Tokens;
use super::expired::has_expired;
use super::scope::Action;
use crate::shared::{Result, SharedState, Table, Window};

/// The limit of a token, in lmstfy's form; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Limit {
    /// The consumes of a window that returned a job.
    pub(crate) read: i64,
    /// The publishes of a window that succeeded.
    pub(crate) write: i64,
    /// The window, in seconds; it begins with the first call.
    pub(crate) interval: i64,
}

/// Why a limit is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitError {
    /// It limits nothing.
    Empty,
    /// Its window has no length.
    NoInterval,
    /// A number is negative.
    Negative,
}

/// What came of a change of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitChange {
    /// It is made.
    Done,
    /// There is a limit already.
    Exists,
    /// The handle is of no token.
    NoToken,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "read and write are both 0, which limits nothing",
            Self::NoInterval => "interval should be > 0",
            Self::Negative => "read, write and interval are not negative",
        })
    }
}

impl Limit {
    pub(crate) fn check(&self) -> std::result::Result<(), LimitError> {
        if self.read == 0 && self.write == 0 {
            return Err(LimitError::Empty);
        }
        if self.interval == 0 {
            return Err(LimitError::NoInterval);
        }
        if self.read < 0 || self.write < 0 || self.interval < 0 {
            Err(LimitError::Negative)
        } else {
            Ok(())
        }
    }

    /// Returns the most calls of a window, if they are limited.
    pub(super) fn of(&self, action: Action) -> Option<u64> {
        let max = match action {
            Action::Consume => self.read,
            Action::Produce => self.write,
        };
        u64::try_from(max).ok().filter(|max| *max > 0)
    }

    pub(super) fn window(&self) -> Duration {
        Duration::from_secs(
            u64::try_from(self.interval)
                .unwrap_or(1)
                .clamp(1, u64::from(u32::MAX)),
        )
    }

    pub(super) fn encode(&self) -> String {
        // Three numbers are always JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl Tokens {
    /// Returns the limit of a token.
    pub(crate) async fn limit(
        &self,
        pool: &str,
        namespace: &str,
        token: &str,
    ) -> Result<Option<Limit>> {
        let address = (pool, namespace, token);
        let Some(key) = self
            .key_of(address, &[Table::Tokens, Table::Limits])
            .await?
        else {
            return Ok(None);
        };
        let limit = self.state.get(Table::Limits, &key).await?;
        Ok(limit.as_deref().and_then(Limit::decode))
    }

    /// Sets the limit of a token; with `only_new` not where there is one.
    pub(crate) async fn set_limit(
        &self,
        address: (&str, &str, &str),
        limit: &Limit,
        only_new: bool,
    ) -> Result<LimitChange> {
        let Some(key) = self.key_of(address, &[Table::Tokens]).await? else {
            return Ok(LimitChange::NoToken);
        };
        let text = limit.encode();
        let is_set = if only_new {
            self.state.put_new(Table::Limits, &key, &text).await?
        } else {
            self.state.put(Table::Limits, &key, &text).await?;
            true
        };
        if !is_set {
            return Ok(LimitChange::Exists);
        }
        self.state.seen_by_all().await;
        Ok(LimitChange::Done)
    }

    /// Removes the limit of a token, or one that is there without a token.
    pub(crate) async fn remove_limit(&self, address: (&str, &str, &str)) -> Result<LimitChange> {
        let tables = [Table::Tokens, Table::Limits];
        let Some(key) = self.key_of(address, &tables).await? else {
            return Ok(LimitChange::NoToken);
        };
        self.state.remove(Table::Limits, &key).await?;
        self.state.seen_by_all().await;
        Ok(LimitChange::Done)
    }

    /// Returns every limit of a token that has not expired: its pool, namespace, token or handle, and what it allows.
    pub(crate) async fn limits(&self) -> Result<Vec<(String, String, String, Limit)>> {
        let now = self.now().await?.as_millis();
        let tokens = self.state.list(Table::Tokens, "").await?.into_iter();
        let expired = tokens.filter(|(_, row)| has_expired(row, now));
        let expired: HashSet<String> = expired.map(|(key, _)| key).collect();
        let rows = self.state.list(Table::Limits, "").await?.into_iter();
        let rows = rows.filter(|(key, _)| !expired.contains(key));
        let limits = rows.filter_map(|(key, row)| {
            let mut parts = key.splitn(3, '/');
            let (pool, namespace) = (parts.next()?.to_owned(), parts.next()?.to_owned());
            Some((pool, namespace, self.shown(&key), Limit::decode(&row)?))
        });
        Ok(limits.collect())
    }
}

/// One call of a limit. Unless it is kept it is given back when this is dropped, so also when the
/// client hangs up in the middle of its request.
#[derive(Debug)]
#[must_use = "a call that succeeds is kept"]
pub(crate) struct LimitedCall {
    state: SharedState,
    counter: Option<(String, Window)>,
}

impl LimitedCall {
    pub(super) fn new(state: SharedState, counter: String, window: Window) -> Self {
        Self {
            state,
            counter: Some((counter, window)),
        }
    }

    /// Counts the call.
    pub(crate) fn keep(mut self) {
        self.counter = None;
    }

    /// Gives the call back, and waits until the next one can take it.
    pub(crate) async fn give_back(mut self) {
        if let Some(giving) = self.giving() {
            // It was cancelled by the end of the runtime, or has logged why it failed.
            let _ = giving.await;
        }
    }

    /// Begins to give the call back, by a task that outlives the request.
    fn giving(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let (state, (counter, window)) = (self.state.clone(), self.counter.take()?);
        let give_back = async move {
            if let Err(error) = state.give_back(&counter, window).await {
                tracing::warn!(%error, "call of a limit not given back");
            }
        };
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(give_back))
    }
}

impl Drop for LimitedCall {
    fn drop(&mut self) {
        drop(self.giving());
    }
}
