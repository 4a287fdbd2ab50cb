//! Turns of what reads much: few pages of a namespace read at a time, and half of them of one user, so
//! that another one waits for few of them, however many one has asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::access::User;
use crate::error::{PageError, Result};

/// How many of a namespace, or of who sees every queue, read at a time; of a user half of them.
const TURNS: usize = 4;
/// How long a turn is waited for.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// What reads much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// A page. It has its turn while it reads.
    Page,
    /// A file. It has its turn until it is sent, as it is in memory until then.
    Export,
}

impl Work {
    /// How many of a namespace have a turn or wait for one; of a user half of them.
    const fn places(self) -> usize {
        match self {
            Self::Page => 100,
            Self::Export => 20,
        }
    }
}

/// Whose turns they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Whose {
    User(String),
    Namespace(String),
}

/// The turns of a dashboard. Who has one, or waits for it, has its line from here.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<(Work, Whose), Arc<Semaphore>>>);

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Turns {
    /// Waits for a turn of a page. One that keeps itself current takes only a turn that nobody waits
    /// for: it has a picture already.
    pub(crate) async fn page(&self, user: &User, is_live: bool) -> Result<Turn> {
        if is_live {
            self.take_free(Work::Page, user)
        } else {
            self.take(Work::Page, user).await
        }
    }

    /// Takes a turn that is free.
    fn take_free(&self, work: Work, user: &User) -> Result<Turn> {
        let lines = self.lines(work, user)?.into_iter();
        let permits: std::result::Result<_, _> = lines.map(Semaphore::try_acquire_owned).collect();
        match permits {
            Ok(permits) => Ok(Turn { _permits: permits }),
            Err(_) => Err(crowded()),
        }
    }

    /// Waits for a turn of a user, while few wait: first among those of the user, and then among those
    /// of the namespace.
    pub(crate) async fn take(&self, work: Work, user: &User) -> Result<Turn> {
        let lines = self.lines(work, user)?;
        let taken = async {
            let mut permits = Vec::with_capacity(lines.len());
            for line in lines {
                permits.extend(line.acquire_owned().await); // no line is ever closed
            }
            Turn { _permits: permits }
        };
        timeout(WAIT_MAX, taken).await.map_err(|_| crowded())
    }

    fn lines(&self, work: Work, user: &User) -> Result<Vec<Arc<Semaphore>>> {
        let mut lines = self.0.lock();
        lines.retain(|_, line| Arc::strong_count(line) > 1);
        let mut enter = |whose, share: usize| {
            let new = || Arc::new(Semaphore::new(TURNS / share));
            let line = lines.entry((work, whose)).or_insert_with(new);
            let is_full = Arc::strong_count(line) > work.places() / share;
            (!is_full).then(|| Arc::clone(line)).ok_or_else(crowded)
        };
        let own = Whose::User(user.name.clone());
        if user.sees_all() {
            return Ok(vec![enter(own, 1)?]);
        }
        let mut both = vec![enter(own, 2)?];
        if let Some(namespace) = user.namespace() {
            both.push(enter(Whose::Namespace(namespace.to_owned()), 1)?);
        }
        Ok(both)
    }
}

fn crowded() -> PageError {
    let text = "too many pages that read much wait for their turn; try again later, with fewer";
    PageError::new(StatusCode::TOO_MANY_REQUESTS, text)
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures_util::poll;

    use super::*;
    use crate::access::Role;

    fn of(namespace: &str, name: &str) -> User {
        let user = User::new(name, Role::View).only(|_| true);
        user.only_schedules_of(namespace)
    }

    #[tokio::test]
    async fn a_page_that_keeps_itself_current_waits_for_no_turn_and_takes_none_from_who_waits() {
        let (turns, ann) = (Turns::default(), of("shop", "ann"));
        let take = || Box::pin(turns.take(Work::Page, &ann));
        let live = || turns.take_free(Work::Page, &ann);
        let first = live().unwrap();
        let _second = take().await.unwrap();
        assert_eq!(live().unwrap_err().status(), 429);
        let mut waits = take();
        assert!(poll!(&mut waits).is_pending());
        drop(first);
        assert_eq!(live().unwrap_err().status(), 429, "who waits is next");
        drop(waits.await.unwrap());
        live().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_has_half_of_the_turns_of_a_namespace_and_others_have_theirs() {
        for work in [Work::Page, Work::Export] {
            let turns = Turns::default();
            let take = |user: &User| {
                let (turns, user) = (&turns, user.clone());
                Box::pin(async move { turns.take(work, &user).await })
            };
            let [ann, eve, bob] = ["ann", "eve", "bob"].map(|name| of("shop", name));
            let (mut taken, mut waiting, mut refused) = (Vec::new(), Vec::new(), 0);
            for user in [&ann, &eve, &bob] {
                for _ in 0..work.places() {
                    let mut turn = take(user);
                    match poll!(&mut turn) {
                        Poll::Ready(Ok(turn)) => taken.push(turn),
                        Poll::Ready(Err(_)) => refused += 1,
                        Poll::Pending => waiting.push(turn),
                    }
                }
                let (of_user, most) = (taken.len(), work.places() / 2);
                let all = [(2, most), (4, most * 2), (4, most * 2)];
                let seen = (of_user, of_user + waiting.len());
                assert!(all.contains(&seen), "{work:?} {seen:?}");
            }
            assert_eq!((taken.len(), refused), (4, work.places() * 2));
            // Another namespace, another kind of work, and who sees every queue wait for none of them.
            let operator = User::new("operator", Role::View);
            for user in [of("other", "ann of other"), operator] {
                assert!(poll!(take(&user)).is_ready(), "{}", user.name);
            }
            // Who waits is next, but not for ever.
            taken.clear();
            assert!(poll!(&mut waiting[0]).is_ready());
            drop(waiting);
            let late = take(&ann);
            let held = [take(&ann).await, take(&ann).await];
            assert!(held.iter().all(Result::is_ok));
            assert_eq!(late.await.unwrap_err().status(), 429);
            drop(held);
            take(&ann).await.unwrap();
        }
    }
}
