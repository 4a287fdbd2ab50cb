//! Admission: what is much work for a store waits for its turn, and few requests of one owner wait.
//!
//! Of each kind of work a namespace has some turns at a time, and some places for what has a turn or
//! waits for one. An owner, which is a token, has half of both at most, so that another one always
//! finds a place, and waits for one step of it, however many it has sent.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::auth::{Grant, LastingGrant, Refusal, Tokens};
use crate::shares::Owner;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// Reads many events.
    Read,
    /// Changes many events.
    Change,
    /// Counts what is to come.
    Forecast,
    /// Changes settings or a webhook of a namespace, or replaces a job: what it has counted or looked
    /// up holds until it is done.
    Setting,
}

/// Bounds of a kind of work in a namespace.
#[derive(Clone, Copy)]
struct Bounds {
    /// How many steps run at a time.
    turns: usize,
    /// How many requests are done or wait.
    places: usize,
    /// How long a step has its turn. One that takes longer goes on without it.
    held_max: Option<Duration>,
}

/// Steps are pages of milliseconds; one that takes so long waits for a store that responds slowly.
const HELD_MAX: Option<Duration> = Some(Duration::from_secs(5));

impl Work {
    const fn bounds(self) -> Bounds {
        let (turns, places, held_max) = match self {
            Self::Read => (4, 100, HELD_MAX),
            // A store does one after the other.
            Self::Change => (1, 100, HELD_MAX),
            // A bus bounds the time of each, and shares it among those that run.
            Self::Forecast => (2, 20, None),
            // The turn is what makes it whole, and what it asks for ends by itself.
            Self::Setting => (1, 1_000, None),
        };
        Bounds {
            turns,
            places,
            held_max,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Read => "reads of many events",
            Self::Change => "changes of many events",
            Self::Forecast => "forecasts",
            Self::Setting => "changes of settings",
        }
    }
}

/// Whose requests are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiters {
    Owner,
    Namespace,
}

/// Why work is not admitted: too much of it waits for its turn already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowded(Work, Waiters);

impl Crowded {
    /// How long who is one of too many may wait before it comes again.
    pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);
}

impl fmt::Display for Crowded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(work, crowd) = self;
        let whose = match crowd {
            Waiters::Owner => "token",
            Waiters::Namespace => "namespace",
        };
        let what = work.name();
        write!(
            f,
            "too many {what} of the {whose} wait for their turn; retry later, with fewer"
        )
    }
}

/// The work of a name, or of an owner in it. A clone is a place.
#[derive(Debug)]
struct Line {
    turns: Arc<Semaphore>,
}

/// A kind of work, the name of what has the places, and of an owner's share of them.
type Key = (Work, String, Option<Owner>);

/// What is admitted.
#[derive(Debug, Default)]
pub(crate) struct Admission(Mutex<HashMap<Key, Arc<Line>>>);

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    work: Work,
    /// The line of the owner, and then that of all.
    lines: [Arc<Line>; 2],
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    held_max: Option<Duration>,
    /// They are all of it, as no line is ever closed.
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Admission {
    /// Takes a place for work of an owner at a name, such as that of a namespace.
    pub(crate) fn place(&self, work: Work, name: &str, owner: &Owner) -> Result<Place, Crowded> {
        let Bounds { turns, places, .. } = work.bounds();
        let half = |many: usize| many.div_ceil(2);
        let mut lines = self.0.lock();
        lines.retain(|_, line| Arc::strong_count(line) > 1);
        let mut enter = |owner: Option<&Owner>, turns, places, crowd| {
            let key = (work, name.to_owned(), owner.cloned());
            let line = lines.entry(key).or_insert_with(|| {
                let turns = Arc::new(Semaphore::new(turns));
                Arc::new(Line { turns })
            });
            let is_full = Arc::strong_count(line) > places;
            (!is_full)
                .then(|| Arc::clone(line))
                .ok_or(Crowded(work, crowd))
        };
        let own = enter(Some(owner), half(turns), half(places), Waiters::Owner)?;
        let all = enter(None, turns, places, Waiters::Namespace)?;
        let lines = [own, all];
        Ok(Place { work, lines })
    }
}

impl Place {
    /// Waits for a turn: first among those of the owner, so that few of them wait among all.
    pub(crate) async fn turn(&self) -> Turn {
        let mut permits = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            permits.extend(Arc::clone(&line.turns).acquire_owned().await);
        }
        Turn {
            held_max: self.work.bounds().held_max,
            _permits: permits,
        }
    }
}

impl Turn {
    /// Does a step, and gives the turn up when that takes too long.
    async fn of<T>(self, step: impl Future<Output = T>) -> T {
        let mut step = pin!(step);
        if let Some(most) = self.held_max
            && let Ok(done) = timeout(most, &mut step).await
        {
            return done;
        }
        let _turn = self.held_max.is_none().then_some(self);
        step.await
    }
}

/// A request of one step or of many, which has its place until all of them are done.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    tokens: &'a Arc<Tokens>,
    grant: LastingGrant,
    place: Place,
}

impl Admission {
    /// Admits a request that reads or changes much in its namespace.
    pub(crate) fn admit<'a>(
        &self,
        work: Work,
        grant: &LastingGrant,
        tokens: &'a Arc<Tokens>,
    ) -> Result<Admitted<'a>, Crowded> {
        let place = self.place(work, &grant.place(), grant.owner())?;
        Ok(Admitted {
            tokens,
            grant: grant.clone(),
            place,
        })
    }
}

impl Admitted<'_> {
    /// Does a step in its turn, and for as long as the token may. Returns also what the token may do
    /// after it.
    pub(crate) async fn step<T>(
        &self,
        step: impl Future<Output = T>,
    ) -> Result<(T, Arc<Grant>), Refusal> {
        let (grant, tokens) = (&self.grant, self.tokens);
        let in_turn = async {
            let turn = self.place.turn().await;
            grant.check(tokens).await?;
            Ok::<_, Refusal>(turn.of(step).await)
        };
        let done = tokio::select! {
            done = in_turn => done?,
            refusal = grant.ended(tokens) => return Err(refusal),
        };
        Ok((done, grant.check(tokens).await?))
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::task::Poll;

    use futures_util::poll;

    use super::*;

    fn take(admission: &Admission, work: Work, name: &str, owner: &str) -> Result<Place, Crowded> {
        admission.place(work, name, &Owner::new("pool", name, owner))
    }

    const ALL: [Work; 4] = [Work::Read, Work::Change, Work::Forecast, Work::Setting];

    #[tokio::test]
    async fn an_owner_has_half_of_the_places_and_a_name_waits_for_itself_alone() {
        for work in ALL {
            let (admission, most) = (Admission::default(), work.bounds().places);
            let mut places = Vec::new();
            let fill = |places: &mut Vec<_>, owner: &str| {
                let taken = std::iter::from_fn(|| take(&admission, work, "worst", owner).ok());
                places.extend(taken);
            };
            fill(&mut places, "first");
            assert_eq!(places.len(), most / 2, "{work:?}");
            let refused = take(&admission, work, "worst", "first").unwrap_err();
            assert_eq!(refused, Crowded(work, Waiters::Owner));
            // What is refused has no place.
            fill(&mut places, "second");
            assert_eq!(places.len(), most, "{work:?}");
            let refused = take(&admission, work, "worst", "third").unwrap_err();
            assert_eq!(refused, Crowded(work, Waiters::Namespace));
            // Another name, and another kind of work, have places and turns of their own.
            let other = take(&admission, work, "other", "first").unwrap();
            let _turns = (places[0].turn().await, other.turn().await);
            for other in ALL.into_iter().filter(|other| *other != work) {
                take(&admission, other, "worst", "third")
                    .unwrap()
                    .turn()
                    .await;
            }
            places.pop();
            take(&admission, work, "worst", "third").unwrap();
            drop((places, other));
            let last = take(&admission, work, "last", "third").unwrap();
            assert_eq!(admission.0.lock().len(), 2, "what is unused is forgotten");
            drop(last);
        }
    }

    /// However many one has sent, another one is next but for what runs.
    #[tokio::test]
    async fn owners_take_turns() {
        for work in ALL {
            let (admission, turns) = (Admission::default(), work.bounds().turns);
            let places: Vec<_> = (0..work.bounds().places / 2)
                .map(|_| take(&admission, work, "name", "worst").unwrap())
                .collect();
            let (mut running, mut waiting) = (Vec::new(), Vec::new());
            for place in &places {
                let mut turn = Box::pin(place.turn());
                match poll!(&mut turn) {
                    Poll::Ready(turn) => running.push(turn),
                    Poll::Pending => waiting.push(turn),
                }
            }
            assert_eq!(running.len(), turns.div_ceil(2), "{work:?}");
            let other = take(&admission, work, "name", "other").unwrap();
            let mut turn = Box::pin(other.turn());
            assert_eq!(poll!(&mut turn).is_ready(), turns > 1, "{work:?}");
            if turns == 1 {
                running.clear();
                for of_worst in &mut waiting {
                    assert!(poll!(of_worst).is_pending(), "{work:?}");
                }
                assert!(poll!(&mut turn).is_ready(), "{work:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_takes_its_time_gives_its_turn_up_and_goes_on() {
        for work in ALL {
            let admission = Admission::default();
            let [first, second] = [(); 2].map(|()| take(&admission, work, "name", "a").unwrap());
            let turns: Vec<_> = {
                let mut turns = Vec::new();
                for _ in 0..work.bounds().turns.div_ceil(2) - 1 {
                    turns.push(first.turn().await);
                }
                turns
            };
            let mut slow = Box::pin(first.turn().await.of(pending::<()>()));
            assert!(poll!(&mut slow).is_pending());
            let mut next = Box::pin(second.turn());
            assert!(poll!(&mut next).is_pending());
            tokio::time::advance(Duration::from_secs(3_600)).await;
            assert!(poll!(&mut slow).is_pending(), "it goes on");
            let is_given_up = poll!(&mut next).is_ready();
            assert_eq!(is_given_up, work.bounds().held_max.is_some(), "{work:?}");
            drop((turns, slow, next));
            let third = take(&admission, work, "name", "a").unwrap();
            assert_eq!(third.turn().await.of(ready(7)).await, 7);
        }
    }
}
