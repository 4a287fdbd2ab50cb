//! Tokens that have expired: they are as none, and go when others are made.

use super::{TokenRow, Tokens};
use crate::shared::{Result, Table};

/// How many tokens are looked at for each that is made: more than one, so that those that have
/// expired are never more than the others.
const LOOKS: usize = 8;

/// Whether a row is that of a token that has expired.
pub(super) fn has_expired(row: &str, now_ms: u64) -> bool {
    TokenRow::decode(row).is_some_and(|row| row.has_expired(now_ms))
}

impl Tokens {
    /// Removes a token if it has expired; returns whether it did.
    pub(super) async fn remove_expired(&self, key: &str, row: &str, now_ms: u64) -> Result<bool> {
        if !has_expired(row, now_ms) || !self.state.remove_token(key, Some(row)).await? {
            return Ok(false);
        }
        self.shown.lock().remove(key);
        Ok(true)
    }

    /// Looks at some tokens, and removes those that have expired. A failure is of no matter to the
    /// token that is made.
    pub(super) async fn sweep(&self, now_ms: u64) {
        if let Err(error) = self.sweep_some(now_ms).await {
            tracing::warn!(%error, "tokens not looked at");
        }
    }

    async fn sweep_some(&self, now_ms: u64) -> Result<()> {
        let place = self.swept.lock().clone();
        let (rows, next) = self.state.some(Table::Tokens, &place, LOOKS).await?;
        *self.swept.lock() = next;
        let mut removed = 0;
        for (key, row) in rows {
            removed += usize::from(self.remove_expired(&key, &row, now_ms).await?);
            // A small table comes as a whole.
            if removed >= LOOKS {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::auth::{Limit, NewToken};
    use crate::shared::SharedState;

    #[tokio::test]
    async fn what_has_expired_is_never_much_more_than_what_has_not() {
        let state = SharedState::open("memory:").await.unwrap();
        let tokens = Tokens::new(state.clone());
        let limit = Limit {
            read: 1,
            write: 1,
            interval: 1,
        };
        let create = async |ends_in: Duration| {
            let now = tokens.now().await.unwrap();
            let new = NewToken::new(None, "d".to_owned(), now).unwrap();
            let new = new.expires(now + ends_in);
            let text = tokens.create("default", "ns", new).await.unwrap().unwrap();
            let place = ("default", "ns", text.as_str());
            tokens.set_limit(place, &limit, true).await.unwrap();
        };
        let rows = async || {
            let tokens = state.list(Table::Tokens, "").await.unwrap().len();
            (tokens, state.list(Table::Limits, "").await.unwrap().len())
        };
        for lasting in [0, 40] {
            for _ in 0..lasting {
                create(Duration::from_secs(3_600)).await;
            }
            for _ in 0..300 {
                create(Duration::ZERO).await;
            }
            let (tokens, limits) = rows().await;
            assert!(
                (lasting..=2 * lasting + 2 * LOOKS).contains(&tokens),
                "{tokens}"
            );
            assert_eq!(limits, tokens, "a limit goes with its token");
        }
        assert_eq!(tokens.list("default", "ns").await.unwrap().len(), 40);
        assert_eq!(tokens.limits().await.unwrap().len(), 40);
    }
}
