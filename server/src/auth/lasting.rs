//! A right that a request goes on using, for as long as it lasts.

use std::sync::Arc;
use std::time::Duration;

use super::{Grant, Refusal, Scope, Tokens};
use crate::shares;

/// How often a request that waits looks whether it still may.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// The right of a request that lasts: a body on its way, a parked poll, a stream, many steps. It is
/// checked again at the end of a body and whenever an event is handed out or taken in, as the token may
/// be revoked, expire or be narrowed meanwhile.
///
/// A request cannot go without: its body is read by [`App::read`](crate::state::App::read), and leased
/// jobs are seen in [`Deliverable`](crate::lmstfy::delivered::Deliverable) alone; both take one.
#[derive(Clone, Debug)]
pub(crate) struct LastingGrant {
    pool: String,
    namespace: String,
    token: String,
    /// The scopes of which the token needs one, for each of the queues.
    scopes: &'static [Scope],
    queues: Vec<String>,
    owner: Arc<str>,
}

impl LastingGrant {
    pub(crate) fn new(
        (pool, namespace, token): (&str, &str, &str),
        scopes: &'static [Scope],
        queues: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            owner: shares::owner(pool, token),
            pool: pool.to_owned(),
            namespace: namespace.to_owned(),
            token: token.to_owned(),
            scopes,
            queues: queues.into_iter().map(Into::into).collect(),
        }
    }

    /// Returns the same right of the same token, to other queues.
    pub(crate) fn to_queues(&self, queues: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let queues = queues.into_iter().map(Into::into).collect();
        Self {
            queues,
            ..self.clone()
        }
    }

    /// Returns the token, which is secret.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns the name by which the token has its shares of what is bounded.
    pub(crate) fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// Checks that the token may still do it, to each of the queues.
    pub(crate) async fn check(&self, tokens: &Tokens) -> Result<Arc<Grant>, Refusal> {
        let grant = tokens
            .check(&self.pool, &self.namespace, &self.token)
            .await?;
        for queue in &self.queues {
            grant.allows_any(self.scopes, queue)?;
        }
        Ok(grant)
    }

    /// Waits until the token may not do it any more. A shared state that does not respond ends
    /// nothing: what is handed out is checked by itself.
    pub(crate) async fn ended(&self, tokens: &Tokens) -> Refusal {
        loop {
            tokio::time::sleep(CHECKED_EVERY).await;
            match self.check(tokens).await {
                Ok(_) | Err(Refusal::Failed(_)) => {}
                Err(refusal) => return refusal,
            }
        }
    }
}
