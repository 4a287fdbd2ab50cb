//! A right that a request goes on using, for as long as it lasts.

use std::sync::Arc;
use std::time::Duration;

use super::{Grant, Refusal, Scope, Tokens};

/// How often a request that waits looks whether it still may.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// The right of a request that lasts: a parked poll, a stream. It is checked again whenever an event
/// is handed out or taken in, as the token may be revoked, expire or be narrowed meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct LastingGrant {
    pool: String,
    namespace: String,
    token: String,
    scope: Scope,
    queues: Vec<String>,
}

impl LastingGrant {
    pub(crate) fn new(
        (pool, namespace, token): (&str, &str, &str),
        scope: Scope,
        queues: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            pool: pool.to_owned(),
            namespace: namespace.to_owned(),
            token: token.to_owned(),
            scope,
            queues: queues.into_iter().map(Into::into).collect(),
        }
    }

    /// Checks that the token may still do it, to each of the queues.
    pub(crate) async fn check(&self, tokens: &Tokens) -> Result<Arc<Grant>, Refusal> {
        let grant = tokens
            .check(&self.pool, &self.namespace, &self.token)
            .await?;
        for queue in &self.queues {
            grant.allows(self.scope, queue)?;
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
