//! Room that tokens share: so much in all, and so much for each of them.
//!
//! When there is none left, the newest gets some all the same and the idlest goes: of its own token if
//! that has too much, of the token that has most otherwise. So a token that does its worst ends its
//! own requests first, and never keeps another's from beginning.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Returns the name by which a token of a pool has its shares.
pub(crate) fn owner(pool: &str, token: &str) -> Arc<str> {
    Arc::from(format!("{pool}:{token}"))
}

/// Bounds of a kind of room, in whatever unit it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most of all tokens.
    pub(crate) of_all: usize,
    /// The most of one token.
    pub(crate) of_each: usize,
    /// How long a share must be idle before it goes. What is busy for so long is waited for.
    pub(crate) idle_min: Duration,
}

/// Why a share had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evicted {
    /// Its token had too many.
    OfToken,
    /// All tokens together had too many, and its token most of them.
    OfAll,
}

/// A kind of room.
#[derive(Debug)]
pub(crate) struct Shares {
    bounds: Bounds,
    table: Mutex<Table>,
    /// Notified when a share ends.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    used: usize,
    /// The next number; of two shares the one with the smaller is idle for longer.
    next: u64,
    owners: HashMap<Arc<str>, Owner>,
}

/// The shares of a token, the idlest first.
#[derive(Debug, Default)]
struct Owner {
    used: usize,
    shares: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    room: usize,
    used_at: Instant,
    end: Arc<End>,
}

/// How a share learns that it has to go.
#[derive(Debug, Default)]
struct End {
    cancelled: CancellationToken,
    why: OnceLock<Evicted>,
}

/// Some of the room, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    owner: Arc<str>,
    number: AtomicU64,
    end: Arc<End>,
    /// Cancelled when this is dropped.
    done: CancellationToken,
}

impl Shares {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            table: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Takes some of the room for a token. It waits only for shares that are not idle.
    pub(crate) async fn take(self: &Arc<Self>, owner: &Arc<str>, room: usize) -> Share {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            match self.try_take(owner, room) {
                Ok(share) => return share,
                Err(idle_at) => tokio::select! {
                    () = freed => {}
                    () = tokio::time::sleep_until(idle_at) => {}
                },
            }
        }
    }

    /// Takes some of the room; else returns when a share will be idle for long enough to go.
    fn try_take(self: &Arc<Self>, owner: &Arc<str>, room: usize) -> Result<Share, Instant> {
        // One that needs more than there is takes all of it.
        let room = room.min(self.bounds.of_each).min(self.bounds.of_all);
        let mut table = self.lock();
        self.make_room(&mut table, owner, room)?;
        let end = Arc::<End>::default();
        let number = table.add(
            owner,
            Entry {
                room,
                used_at: Instant::now(),
                end: Arc::clone(&end),
            },
        );
        Ok(Share {
            shares: Arc::clone(self),
            owner: Arc::clone(owner),
            number: AtomicU64::new(number),
            end,
            done: CancellationToken::new(),
        })
    }

    fn make_room(&self, table: &mut Table, owner: &Arc<str>, room: usize) -> Result<(), Instant> {
        while table.used_by(owner).saturating_add(room) > self.bounds.of_each {
            if !self.evict(table, owner, Evicted::OfToken)? {
                break;
            }
        }
        while table.used.saturating_add(room) > self.bounds.of_all {
            let largest = table.owners.iter().max_by_key(|(_, owner)| owner.used);
            let Some(largest) = largest.map(|(name, _)| Arc::clone(name)) else {
                break;
            };
            if !self.evict(table, &largest, Evicted::OfAll)? {
                break;
            }
        }
        Ok(())
    }

    /// Ends the idlest share of a token; returns false if there is none, and an error if it is to be
    /// waited for.
    fn evict(&self, table: &mut Table, owner: &Arc<str>, why: Evicted) -> Result<bool, Instant> {
        let shares = table.owners.get(owner);
        let Some((number, entry)) = shares.and_then(|it| it.shares.first_key_value()) else {
            return Ok(false);
        };
        let idle_at = entry.used_at + self.bounds.idle_min;
        if Instant::now() < idle_at {
            return Err(idle_at);
        }
        if let Some(entry) = table.remove(owner, *number) {
            entry.end.why.set(why).ok();
            entry.end.cancelled.cancel();
        }
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

impl Table {
    fn used_by(&self, owner: &Arc<str>) -> usize {
        self.owners.get(owner).map_or(0, |owner| owner.used)
    }

    fn add(&mut self, owner: &Arc<str>, entry: Entry) -> u64 {
        let number = self.next;
        self.next += 1;
        self.used += entry.room;
        let owner = self.owners.entry(Arc::clone(owner)).or_default();
        owner.used += entry.room;
        owner.shares.insert(number, entry);
        number
    }

    fn remove(&mut self, name: &Arc<str>, number: u64) -> Option<Entry> {
        let owner = self.owners.get_mut(name)?;
        let entry = owner.shares.remove(&number)?;
        owner.used -= entry.room;
        self.used -= entry.room;
        if owner.shares.is_empty() {
            self.owners.remove(name);
        }
        Some(entry)
    }
}

impl Share {
    /// Notes that it is not idle.
    pub(crate) fn used(&self) {
        self.resize(|room| room);
    }

    /// Takes more room; others of the token go for it, and at last this one.
    pub(crate) fn grow(&self, more: usize) {
        self.resize(|room| room.saturating_add(more));
    }

    /// Gives room back.
    pub(crate) fn shrink(&self, less: usize) {
        self.resize(|room| room.saturating_sub(less));
    }

    fn resize(&self, to: impl FnOnce(usize) -> usize) {
        let Self { shares, owner, .. } = self;
        let mut table = shares.lock();
        let Some(entry) = table.remove(owner, self.number.load(Ordering::Relaxed)) else {
            return; // it is gone
        };
        let (before, room) = (entry.room, to(entry.room));
        let entry = Entry {
            room,
            used_at: Instant::now(),
            ..entry
        };
        let number = table.add(owner, entry);
        self.number.store(number, Ordering::Relaxed);
        if room > before {
            let _ = shares.make_room(&mut table, owner, 0);
        } else {
            drop(table);
            if room < before {
                shares.freed.notify_waiters();
            }
        }
    }

    /// Waits until it has to go; never returns if it does not.
    pub(crate) async fn evicted(&self) -> Evicted {
        self.end.cancelled.cancelled().await;
        self.end.why.get().copied().unwrap_or(Evicted::OfAll)
    }

    /// A handle that learns of its end, and does not keep it.
    pub(crate) fn ending(&self) -> CancellationToken {
        self.end.cancelled.clone()
    }

    /// A handle that learns when it is dropped.
    pub(crate) fn done(&self) -> CancellationToken {
        self.done.clone()
    }

    #[cfg(test)]
    fn is_evicted(&self) -> Option<Evicted> {
        self.end.why.get().copied()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.done.cancel();
        let number = self.number.load(Ordering::Relaxed);
        let removed = self.shares.lock().remove(&self.owner, number);
        if removed.is_some() {
            self.shares.freed.notify_waiters();
        }
    }
}

impl Evicted {
    /// The status for the client, which may succeed later.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::OfToken => StatusCode::TOO_MANY_REQUESTS,
            Self::OfAll => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The text for the client: what was too much, and of whom.
    pub(crate) fn text(self, what: &str) -> String {
        match self {
            Self::OfToken => format!("the token has too many {what}; retry later, with fewer"),
            Self::OfAll => format!("the server has too many {what}; retry later"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(of_all: usize, of_each: usize, idle_min: Duration) -> Arc<Shares> {
        Shares::new(Bounds {
            of_all,
            of_each,
            idle_min,
        })
    }

    async fn take(shares: &Arc<Shares>, owner: &str, room: usize) -> Share {
        shares.take(&Arc::from(owner), room).await
    }

    #[tokio::test]
    async fn the_idlest_of_the_same_token_goes() {
        let shares = shares(100, 10, Duration::ZERO);
        let other = take(&shares, "b", 10).await;
        let first = take(&shares, "a", 5).await;
        let second = take(&shares, "a", 5).await;
        first.used();
        let third = take(&shares, "a", 1).await;
        assert_eq!(second.is_evicted(), Some(Evicted::OfToken));
        assert_eq!(second.evicted().await, Evicted::OfToken);
        let all = [&first, &third, &other].map(Share::is_evicted);
        assert_eq!(all, [None; 3]);
        drop(second); // it is gone already, and counts no second time
        assert_eq!(shares.lock().used, 16);
        let whole = take(&shares, "a", 999).await;
        assert!(first.is_evicted().is_some() && third.is_evicted().is_some());
        drop((first, third, other, whole));
        let table = shares.lock();
        assert_eq!((table.used, table.owners.len()), (0, 0));
    }

    #[tokio::test]
    async fn the_idlest_of_the_largest_token_goes_for_another() {
        let shares = shares(10, 8, Duration::ZERO);
        let large = [take(&shares, "a", 4).await, take(&shares, "a", 4).await];
        let small = take(&shares, "b", 2).await;
        let new = take(&shares, "c", 1).await;
        assert_eq!(large[0].is_evicted(), Some(Evicted::OfAll));
        let all = [&large[1], &small, &new].map(Share::is_evicted);
        assert_eq!(all, [None; 3]);
    }

    #[tokio::test]
    async fn a_share_that_grows_ends_others_and_at_last_itself() {
        let shares = shares(100, 10, Duration::ZERO);
        let (other, grown) = (take(&shares, "a", 5).await, take(&shares, "a", 1).await);
        grown.grow(4);
        assert_eq!(other.is_evicted(), None);
        grown.grow(1);
        assert_eq!(other.is_evicted(), Some(Evicted::OfToken));
        grown.grow(4);
        assert_eq!(grown.is_evicted(), None);
        grown.grow(1);
        assert_eq!(grown.is_evicted(), Some(Evicted::OfToken));
        grown.shrink(1);
        assert_eq!(shares.lock().used, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_busy_is_waited_for_and_what_is_idle_is_not() {
        let shares = shares(10, 10, Duration::from_secs(1));
        let busy = take(&shares, "a", 10).await;
        let begun = Instant::now();
        let waits = tokio::spawn({
            let shares = Arc::clone(&shares);
            async move { take(&shares, "b", 10).await }
        });
        tokio::time::sleep(Duration::from_millis(900)).await;
        busy.used();
        let share = waits.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_millis(1_900));
        assert_eq!(busy.is_evicted(), Some(Evicted::OfAll));
        let waits = tokio::spawn({
            let shares = Arc::clone(&shares);
            async move { take(&shares, "b", 10).await }
        });
        tokio::task::yield_now().await;
        drop(share);
        assert_eq!(waits.await.unwrap().is_evicted(), None);
        assert_eq!(begun.elapsed(), Duration::from_millis(1_900), "at once");
    }
}
