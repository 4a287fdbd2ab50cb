//! A right that a request goes on using, for as long as it lasts.

use std::sync::Arc;

use super::watched::{CHECKED_EVERY, TokenText, Watched};
use super::{Grant, Refusal, Scope, Tokens};
use crate::shares::Owner;

/// The right of a request that lasts: a body on its way, a parked poll, a stream, many steps. It is
/// checked again at the end of a body and whenever an event is handed out or taken in, as the token may
/// be revoked, expire or be narrowed meanwhile.
///
/// A request cannot go without: its body is read by [`App::read`](crate::state::App::read), what takes
/// many steps is done by [`Admitted::step`](crate::admission::Admitted::step), and leased jobs are
/// seen in [`Deliverable`](crate::lmstfy::delivered::Deliverable) alone; each of these takes one.
#[derive(Clone, Debug)]
pub(crate) struct LastingGrant {
    text: Arc<TokenText>,
    /// The scopes of which the token needs one, for each of the queues.
    scopes: &'static [Scope],
    queues: Vec<String>,
    owner: Owner,
}

impl LastingGrant {
    pub(crate) fn new(
        (pool, namespace, token): (&str, &str, &str),
        scopes: &'static [Scope],
        queues: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            owner: Owner::new(pool, namespace, token),
            text: Arc::new(TokenText {
                pool: pool.to_owned(),
                namespace: namespace.to_owned(),
                token: token.to_owned(),
            }),
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

    /// Returns the pool and the namespace that it is of, as one name.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.text.pool, self.text.namespace)
    }

    /// Returns the token, which is secret.
    pub(crate) fn token(&self) -> &str {
        &self.text.token
    }

    /// Returns the name by which the token has its shares of what is bounded.
    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Checks that the token may still do it, to each of the queues.
    pub(crate) async fn check(&self, tokens: &Tokens) -> Result<Arc<Grant>, Refusal> {
        let TokenText {
            pool,
            namespace,
            token,
        } = &*self.text;
        let grant = tokens.check(pool, namespace, token).await?;
        self.is_allowed_by(&grant)?;
        Ok(grant)
    }

    fn is_allowed_by(&self, grant: &Grant) -> Result<(), Refusal> {
        let mut queues = self.queues.iter();
        queues.try_for_each(|queue| grant.allows_any(self.scopes, queue))
    }

    /// Waits until the token may not do it any more. A shared state that does not respond ends
    /// nothing: what is handed out is checked by itself.
    pub(crate) async fn ended(&self, tokens: &Arc<Tokens>) -> Refusal {
        let mut watched = tokens.watch(&self.text);
        loop {
            let may = match &*watched.borrow_and_update() {
                Watched::Unchecked => true,
                Watched::Valid(grant) => self.is_allowed_by(grant).is_ok(),
                Watched::Invalid => false,
            };
            if may && watched.changed().await.is_ok() {
                continue;
            }
            // The request decides for itself: what was found may be older than it is.
            match self.check(tokens).await {
                Ok(_) | Err(Refusal::Failed(_)) => tokio::time::sleep(CHECKED_EVERY).await,
                Err(refusal) => return refusal,
            }
        }
    }
}
