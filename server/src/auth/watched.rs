//! Watchers of tokens: while requests wait, each token is checked once a second, however many requests
//! of it there are.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Grant, Refusal, Tokens};

/// How often a token is checked while a request waits.
pub(super) const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// A token in clear text, and where it is valid.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenText {
    pub(super) pool: String,
    pub(super) namespace: String,
    pub(super) token: String,
}

/// What the last check of a token has found.
#[derive(Debug)]
pub(super) enum Watched {
    /// There was none yet.
    Unchecked,
    Valid(Arc<Grant>),
    Invalid,
}

impl Watched {
    /// Whether a request may do the same.
    fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Valid(one), Self::Valid(other)) => one.row == other.row,
            (Self::Invalid, Self::Invalid) => true,
            _ => false,
        }
    }
}

/// The tokens that are watched.
pub(super) type Watchers = Mutex<HashMap<Arc<TokenText>, watch::Sender<Watched>>>;

impl Tokens {
    /// Watches a token for as long as what is returned is there; it is notified when a check finds
    /// something else than the one before. A shared state that does not respond is no change.
    pub(super) fn watch(self: &Arc<Self>, text: &Arc<TokenText>) -> watch::Receiver<Watched> {
        let mut watchers = self.watchers.lock();
        if let Some(watcher) = watchers.get(text) {
            return watcher.subscribe();
        }
        let (watcher, watched) = watch::channel(Watched::Unchecked);
        watchers.insert(Arc::clone(text), watcher);
        tokio::spawn(run(Arc::downgrade(self), Arc::clone(text)));
        watched
    }

    /// Checks a watched token; returns whether anybody waits for that.
    async fn check_watched(&self, text: &Arc<TokenText>) -> bool {
        {
            let mut watchers = self.watchers.lock();
            let is_awaited = watchers.get(text).is_some_and(|it| it.receiver_count() > 0);
            if !is_awaited {
                watchers.remove(text);
                return false;
            }
        }
        let checked = self.check(&text.pool, &text.namespace, &text.token).await;
        let found = match checked {
            Ok(grant) => Watched::Valid(grant),
            Err(Refusal::Failed(_)) => return true,
            Err(_) => Watched::Invalid,
        };
        if let Some(watcher) = self.watchers.lock().get(text) {
            watcher.send_if_modified(|before| {
                let is_change = !before.is_as(&found);
                *before = found;
                is_change
            });
        }
        true
    }
}

/// Checks a token until nobody waits for that, or the server is gone.
async fn run(tokens: Weak<Tokens>, text: Arc<TokenText>) {
    loop {
        tokio::time::sleep(CHECKED_EVERY).await;
        match tokens.upgrade() {
            Some(tokens) if tokens.check_watched(&text).await => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;
    use crate::auth::{LastingGrant, NewToken, QueuePattern, Scope, TokenAddress};
    use crate::shared::{SharedState, Table};

    const MANY: usize = 1_000;
    const TEXT: &str = "a-token-of-many-waits";
    /// How long a change may take on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Makes the token, or changes it in one step.
    async fn set(tokens: &Tokens, queues: &str) {
        let now = tokens.now().await.unwrap();
        let new = NewToken::new(Some(TEXT.to_owned()), "d".to_owned(), now).unwrap();
        let NewToken { row, .. } = new.queues(vec![QueuePattern(queues.to_owned())]);
        let key = TokenAddress::new("default", "ns", TEXT).key();
        let row = row.encode();
        let put = tokens.state.put(Table::Tokens, &key, &row);
        put.await.unwrap();
    }

    /// Parked requests, half of them of each of two queues: whether one is of the second, and why it
    /// has ended.
    struct Parked {
        tokens: Arc<Tokens>,
        all: JoinSet<(bool, Refusal)>,
        polled: Arc<AtomicUsize>,
    }

    impl Parked {
        fn new(tokens: &Arc<Tokens>) -> Self {
            Self {
                tokens: Arc::clone(tokens),
                all: JoinSet::new(),
                polled: Arc::default(),
            }
        }

        async fn add(&mut self, many: usize) {
            for number in 0..many {
                let (tokens, polled) = (Arc::clone(&self.tokens), Arc::clone(&self.polled));
                let queue = ["a", "b"][number % 2];
                let place = ("default", "ns", TEXT);
                let grant = LastingGrant::new(place, Scope::Consume.alone(), [queue]);
                self.all.spawn(async move {
                    let mut ended = Box::pin(grant.ended(&tokens));
                    let counted = poll_fn(|context| {
                        polled.fetch_add(1, Ordering::Relaxed);
                        ended.as_mut().poll(context)
                    });
                    (queue == "b", counted.await)
                });
            }
            tokio::task::yield_now().await;
        }

        /// Waits for the end of so many; returns how many were of the second queue.
        async fn ended(&mut self, many: usize) -> usize {
            let mut of_second = 0;
            for _ in 0..many {
                let next = timeout(PATIENCE, self.all.join_next()).await;
                let (is_second, refusal) = next.expect("it ends").unwrap().unwrap();
                assert!(matches!(refusal, Refusal::Invalid | Refusal::Forbidden(_)));
                of_second += usize::from(is_second);
            }
            of_second
        }
    }

    #[tokio::test]
    async fn requests_that_wait_cost_one_check_a_second_for_each_token() {
        let state = SharedState::open("memory:").await.unwrap();
        let tokens = Arc::new(Tokens::new(state));
        set(&tokens, "*").await;
        let mut parked = Parked::new(&tokens);
        parked.add(MANY).await;
        tokio::time::pause();
        let checks = || tokens.checks.load(Ordering::Relaxed);
        let (before, began) = (checks(), tokio::time::Instant::now());
        while checks() - before < 60 {
            // By hand: a check reads on another thread, for which paused time does not wait.
            tokio::time::advance(CHECKED_EVERY / 10).await;
        }
        let took = began.elapsed();
        assert!(took >= 59 * CHECKED_EVERY, "60 checks within {took:?}");
        let polled = parked.polled.load(Ordering::Relaxed);
        assert!(polled <= 2 * MANY, "{polled} polls of {MANY} that wait");
        assert_eq!(parked.all.len(), MANY);
        // Nobody waits any more, and nothing is left.
        parked.all.shutdown().await;
        while !tokens.watchers.lock().is_empty() {
            tokio::time::advance(CHECKED_EVERY).await;
        }
        let before = checks();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(checks() - before, 0);
    }

    #[tokio::test]
    async fn requests_that_wait_follow_each_change_of_their_token_and_no_older_one() {
        let state = SharedState::open("memory:").await.unwrap();
        let tokens = Arc::new(Tokens::new(state));
        set(&tokens, "*").await;
        let mut parked = Parked::new(&tokens);
        parked.add(MANY).await;
        set(&tokens, "a").await;
        assert_eq!(parked.ended(MANY / 2).await, MANY / 2);
        assert_eq!(parked.all.len(), MANY / 2);
        // What begins after a change is not ended by what was found before it.
        set(&tokens, "*").await;
        parked.add(MANY).await;
        set(&tokens, "b").await;
        assert_eq!(parked.ended(MANY).await, 0);
        assert_eq!(parked.all.len(), MANY / 2);
        assert!(tokens.revoke(("default", "ns", TEXT), "ann").await.unwrap());
        assert_eq!(parked.ended(MANY / 2).await, MANY / 2);
    }
}
