//! Authorisation: tokens, their scopes, their limits, and the audit of changes.

mod expired;
mod lasting;
mod limit;
mod scope;
mod token;
mod watched;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duly::time::Timestamp;
use parking_lot::Mutex;

use self::expired::has_expired;
pub(crate) use self::lasting::LastingGrant;
pub(crate) use self::limit::{Limit, LimitChange, LimitError, LimitedCall};
pub(crate) use self::scope::{Action, QueuePattern, Scope};
pub(crate) use self::token::{NewToken, TokenAddress, TokenRow, user_name};
use self::watched::Watchers;
use crate::clock;
use crate::http::{peer, whole};
use crate::shared::{Call, Result, SharedState, StateError, Table};

/// The most tokens in memory; beyond it the memory starts anew.
const CACHED_MAX: usize = 10_000;
/// How many tokens this process can show in clear text: those that it has made itself.
const SHOWN_MAX: usize = 10_000;
/// How exactly the last use of a token is known.
const USE_NOTED_EVERY: Duration = Duration::from_secs(60);

/// A valid token, with its limit.
#[derive(Debug)]
pub(crate) struct Grant {
    address: TokenAddress,
    row: TokenRow,
    limit: Option<Limit>,
    /// When its use was noted last, in milliseconds.
    noted_ms: Mutex<u64>,
}

/// Why a request is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// There is no such token, or no more.
    Invalid,
    /// The token may not do this; says what.
    Forbidden(String),
    /// The token's limit is reached until so long from now.
    Throttled(Duration),
    /// The shared state failed.
    Failed(crate::shared::StateError),
}

impl From<crate::shared::StateError> for Refusal {
    fn from(error: crate::shared::StateError) -> Self {
        Self::Failed(error)
    }
}

/// The tokens, as the shared state has them.
#[derive(Debug)]
pub(crate) struct Tokens {
    state: SharedState,
    cache: Mutex<Cache>,
    /// The clear text of tokens that were made here, by their key.
    shown: Mutex<HashMap<String, String>>,
    /// Where the next look at tokens that may have expired begins.
    swept: Mutex<String>,
    watchers: Watchers,
    #[cfg(test)]
    checks: std::sync::atomic::AtomicUsize,
}

/// What was read at a version.
#[derive(Debug, Default)]
struct Cache {
    version: u64,
    grants: HashMap<String, Arc<Grant>>,
}

impl Tokens {
    pub(crate) fn new(state: SharedState) -> Self {
        Self {
            state,
            cache: Mutex::default(),
            shown: Mutex::default(),
            swept: Mutex::default(),
            watchers: Watchers::default(),
            #[cfg(test)]
            checks: Default::default(),
        }
    }

    /// Returns the token, if it is valid now: it exists on every node, and has not expired.
    pub(crate) async fn check(
        &self,
        pool: &str,
        namespace: &str,
        token: &str,
    ) -> std::result::Result<Arc<Grant>, Refusal> {
        #[cfg(test)]
        self.checks
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let address = TokenAddress::new(pool, namespace, token);
        let version = self.state.recent_version().await?;
        let key = address.key();
        let now = self.state.now().as_millis();
        // The text of one that has expired may be of another one by now.
        let cached = self.cached(version, &key);
        let grant = match cached.filter(|grant| !grant.row.has_expired(now)) {
            Some(grant) => grant,
            None => self
                .read(version, address, key)
                .await?
                .ok_or(Refusal::Invalid)?,
        };
        if !grant.row.matches(token) || grant.row.has_expired(now) {
            return Err(Refusal::Invalid);
        }
        self.note_use(&grant, now).await;
        Ok(grant)
    }

    fn cached(&self, version: u64, key: &str) -> Option<Arc<Grant>> {
        let mut cache = self.cache.lock();
        if cache.version != version {
            *cache = Cache {
                version,
                grants: HashMap::new(),
            };
        }
        cache.grants.get(key).cloned()
    }

    async fn read(
        &self,
        version: u64,
        address: TokenAddress,
        key: String,
    ) -> Result<Option<Arc<Grant>>> {
        let row = self.state.get(Table::Tokens, &key).await?;
        let Some(row) = row.as_deref().and_then(TokenRow::decode) else {
            return Ok(None);
        };
        let limit = self.state.get(Table::Limits, &key).await?;
        let grant = Arc::new(Grant {
            address,
            row,
            limit: limit.as_deref().and_then(Limit::decode),
            noted_ms: Mutex::new(0),
        });
        let mut cache = self.cache.lock();
        if cache.version == version {
            if cache.grants.len() >= CACHED_MAX {
                cache.grants.clear();
            }
            cache.grants.insert(key, Arc::clone(&grant));
        }
        Ok(Some(grant))
    }

    /// Notes the use of a token, once a minute. A failure concerns nobody but the reader of it.
    async fn note_use(&self, grant: &Grant, now_ms: u64) {
        {
            let mut noted = grant.noted_ms.lock();
            let every_ms = u64::try_from(USE_NOTED_EVERY.as_millis()).unwrap_or(u64::MAX);
            if now_ms < noted.saturating_add(every_ms) {
                return;
            }
            *noted = now_ms;
        }
        let key = grant.address.key();
        if let Err(error) = self
            .state
            .put_soon(Table::TokenUses, &key, &now_ms.to_string())
            .await
        {
            tracing::warn!(%error, "use of a token not noted");
        }
    }

    /// Takes one call of the token's limit, if it has one.
    pub(crate) async fn take(
        &self,
        grant: &Grant,
        action: Action,
    ) -> std::result::Result<Option<LimitedCall>, Refusal> {
        let Some(limit) = &grant.limit else {
            return Ok(None);
        };
        let Some(max) = limit.of(action) else {
            return Ok(None);
        };
        // A changed window begins anew.
        let (key, window) = (grant.address.key(), limit.window());
        let counter = format!("{key}/{}@{}", action.name(), window.as_secs());
        let state = self.state.clone();
        let take = async move {
            match state.take(&counter, max, window).await? {
                Call::Counted(window) => Ok(LimitedCall::new(state, counter, window)),
                Call::Throttled(wait) => Err(Refusal::Throttled(wait)),
            }
        };
        // What a client that hangs up has taken is given back where this ends.
        match whole::finish(take).await {
            Some(taken) => taken.map(Some),
            None => Err(StateError::new("limit", &"the server stops").into()),
        }
    }

    /// Returns the time by which tokens expire, on every server.
    pub(crate) async fn now(&self) -> Result<Timestamp> {
        self.state.version().await?;
        Ok(self.state.now())
    }

    /// Makes a token; `None` when there is one already that has not expired.
    pub(crate) async fn create(
        &self,
        pool: &str,
        namespace: &str,
        new: NewToken,
    ) -> Result<Option<String>> {
        let NewToken { text, row } = new;
        let key = TokenAddress::new(pool, namespace, &text).key();
        let (state, row) = (&self.state, row.encode());
        let now_ms = self.now().await?.as_millis();
        self.sweep(now_ms).await;
        if !state.put_new(Table::Tokens, &key, &row).await? {
            let is_gone = match state.get(Table::Tokens, &key).await? {
                Some(before) => self.remove_expired(&key, &before, now_ms).await?,
                None => true,
            };
            if !is_gone || !state.put_new(Table::Tokens, &key, &row).await? {
                return Ok(None);
            }
        }
        let mut shown = self.shown.lock();
        if shown.len() < SHOWN_MAX {
            shown.insert(key, text.clone());
        }
        Ok(Some(text))
    }

    /// Ends a token, and its limit with it; when this returns it has ended on every node. It is audited
    /// before, as it may have ended though nobody learns it. Returns whether there was one.
    pub(crate) async fn revoke(
        &self,
        (pool, namespace, token): (&str, &str, &str),
        actor: &str,
    ) -> Result<bool> {
        let tables = [Table::Tokens, Table::Limits];
        let Some(key) = self.key_of((pool, namespace, token), &tables).await? else {
            return Ok(false);
        };
        let is_known = self.state.get(Table::Tokens, &key).await?.is_some();
        if is_known {
            let target = format!("{pool}/{namespace}/{}", token::handle(&key));
            self.audit(actor, "token revoked", &target).await;
        }
        self.state.remove_token(&key, None).await?;
        self.state.seen_by_all().await;
        self.shown.lock().remove(&key);
        Ok(is_known)
    }

    /// Returns the key of a token by its text, or by the handle that a list shows; `None` for a handle
    /// of nothing in these tables. A token that has expired is in none, nor is its limit.
    async fn key_of(
        &self,
        (pool, namespace, token): (&str, &str, &str),
        tables: &[Table],
    ) -> Result<Option<String>> {
        let by_text = TokenAddress::new(pool, namespace, token).key();
        let Some(handle) = token::handle_of(token) else {
            return Ok(Some(by_text));
        };
        let now_ms = self.now().await?.as_millis();
        let by_handle = format!("{}{handle}", TokenAddress::prefix(pool, namespace));
        for table in tables {
            // A token's own text may look like a handle.
            for prefix in [&by_handle, &by_text] {
                if let Some((key, row)) = self.state.list(*table, prefix).await?.pop() {
                    let is_over = *table == Table::Tokens && has_expired(&row, now_ms);
                    return Ok((!is_over).then_some(key));
                }
            }
        }
        Ok(None)
    }

    /// Returns the tokens of a namespace that have not expired: in clear text where this process has made them, as a
    /// handle otherwise.
    pub(crate) async fn list(
        &self,
        pool: &str,
        namespace: &str,
    ) -> Result<Vec<(String, TokenRow)>> {
        let prefix = TokenAddress::prefix(pool, namespace);
        let now = self.now().await?.as_millis();
        let rows = self.state.list(Table::Tokens, &prefix).await?;
        let tokens = rows
            .into_iter()
            .filter_map(|(key, row)| Some((self.shown(&key), TokenRow::decode(&row)?)));
        Ok(tokens.filter(|(_, row)| !row.has_expired(now)).collect())
    }

    /// Returns the text of a token, or its handle.
    fn shown(&self, key: &str) -> String {
        let shown = self.shown.lock();
        shown
            .get(key)
            .cloned()
            .unwrap_or_else(|| token::handle(key))
    }

    /// Returns how the audit shows a token: by the begin of its hash.
    #[allow(clippy::unused_self)] // beside what it is the name of
    pub(crate) fn handle(&self, pool: &str, namespace: &str, token: &str) -> String {
        match token::handle_of(token) {
            Some(_) => token.to_owned(),
            None => token::handle(&TokenAddress::new(pool, namespace, token).key()),
        }
    }

    /// Adds a line to the audit, and to the log: who did what to what, when, and from where.
    pub(crate) async fn audit(&self, actor: &str, action: &str, target: &str) {
        let from = peer::address().map(|address| address.to_string());
        tracing::info!(
            target: "duly_server::audit",
            actor, action, subject = target, from, "admin action"
        );
        let line = serde_json::json!({
            "action": action,
            "actor": actor,
            "at_ms": clock::now().as_millis(),
            "from": from,
            "target": target,
        })
        .to_string();
        let place = token::place_of(actor, target);
        let trail = token::trail_of(actor, &place);
        if let Err(error) = self.state.audit(trail, &line).await {
            tracing::error!(%error, action, "audit failed");
        }
    }
}

impl Grant {
    /// Whether the token has a limit of such calls.
    pub(crate) fn limits(&self, action: Action) -> bool {
        self.limit.is_some_and(|limit| limit.of(action).is_some())
    }

    /// Whether the token has a right, to whatever queue.
    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.row.has(scope)
    }

    /// Checks that the token has a right, to whatever queue.
    pub(crate) fn allows_anywhere(&self, scope: Scope) -> std::result::Result<(), Refusal> {
        self.row.has_scope(scope).map_err(Refusal::Forbidden)
    }

    /// Checks that the token has a right, to every queue.
    pub(crate) fn allows_all(&self, scope: Scope) -> std::result::Result<(), Refusal> {
        self.allows_anywhere(scope)?;
        // No queue is called so: only a pattern of all of them matches it.
        if self.row.is_for("*") {
            return Ok(());
        }
        let why = "the token is not for every queue of the namespace; give `queue`".to_owned();
        Err(Refusal::Forbidden(why))
    }

    /// Whether the token is for a queue.
    pub(crate) fn is_for(&self, queue: &str) -> bool {
        self.row.is_for(queue)
    }

    /// Checks that the token has one of some scopes for a queue; the error names the first.
    pub(crate) fn allows_any(
        &self,
        scopes: &[Scope],
        queue: &str,
    ) -> std::result::Result<(), Refusal> {
        let mut refusal = Ok(());
        for scope in scopes {
            match (self.allows(*scope, queue), &refusal) {
                (Ok(()), _) => return Ok(()),
                (Err(why), Ok(())) => refusal = Err(why),
                (Err(_), Err(_)) => {}
            }
        }
        refusal
    }

    /// Checks that the token may do something to a queue.
    pub(crate) fn allows(&self, scope: Scope, queue: &str) -> std::result::Result<(), Refusal> {
        self.row.allows(scope, queue).map_err(Refusal::Forbidden)
    }
}
