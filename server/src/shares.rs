//! Room that tokens share: so much in all, so much for those of a namespace, and so much for each.
//!
//! When there is none left, the newest gets some all the same and the idlest goes: of its own token
//! if that has too much, else of the token that has most in its namespace, or in the one that has
//! most. So who does the worst ends its own requests first, with however many tokens, and never keeps
//! another namespace's from beginning.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Whose share it is: a token of a namespace of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    /// The pool and the namespace.
    place: Arc<str>,
    token: Arc<str>,
}

impl Owner {
    pub(crate) fn new(pool: &str, namespace: &str, token: &str) -> Self {
        Self {
            place: Arc::from(format!("{pool}/{namespace}")),
            token: Arc::from(token),
        }
    }
}

/// Bounds of a kind of room, in whatever unit it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most of all tokens.
    pub(crate) of_all: usize,
    /// The most of the tokens of a namespace. Of what is waited for it is less than half of all, so
    /// that two of them leave some.
    pub(crate) of_namespace: usize,
    /// The most of one token.
    pub(crate) of_each: usize,
    /// How long a share must be idle before it goes. What is busy for so long is waited for.
    pub(crate) idle_min: Duration,
}

/// Why a share had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evicted {
    /// Its token had too many.
    Token,
    /// The tokens of its namespace had too many, and its token most of them.
    Namespace,
    /// All tokens together had too many, and those of its namespace most of them.
    All,
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
    places: HashMap<Arc<str>, OfNamespace>,
}

/// The shares of a namespace, by token.
#[derive(Debug, Default)]
struct OfNamespace {
    used: usize,
    tokens: HashMap<Arc<str>, OfToken>,
}

/// The shares of a token, the idlest first.
#[derive(Debug, Default)]
struct OfToken {
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
    owner: Owner,
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
    pub(crate) async fn take(self: &Arc<Self>, owner: &Owner, room: usize) -> Share {
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
    fn try_take(self: &Arc<Self>, owner: &Owner, room: usize) -> Result<Share, Instant> {
        let Bounds {
            of_all,
            of_namespace,
            of_each,
            ..
        } = self.bounds;
        // One that needs more than there is takes all of it.
        let room = room.min(of_each).min(of_namespace).min(of_all);
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
            owner: owner.clone(),
            number: AtomicU64::new(number),
            end,
            done: CancellationToken::new(),
        })
    }

    fn make_room(&self, table: &mut Table, owner: &Owner, room: usize) -> Result<(), Instant> {
        let is_over = |used: usize, most| used.saturating_add(room) > most;
        loop {
            let (of_namespace, of_token) = table.used_by(owner);
            let (gone, why) = if is_over(of_token, self.bounds.of_each) {
                (Some(owner.clone()), Evicted::Token)
            } else if is_over(of_namespace, self.bounds.of_namespace) {
                (table.largest_of(&owner.place), Evicted::Namespace)
            } else if is_over(table.used, self.bounds.of_all) {
                (table.largest(), Evicted::All)
            } else {
                return Ok(());
            };
            let is_gone = gone.map(|gone| self.evict(table, &gone, why)).transpose()?;
            if is_gone != Some(true) {
                return Ok(()); // one that grows is alone
            }
        }
    }

    /// Ends the idlest share of a token; returns false if there is none, and an error if it is to be
    /// waited for.
    fn evict(&self, table: &mut Table, owner: &Owner, why: Evicted) -> Result<bool, Instant> {
        let Some((number, used_at)) = table.idlest_of(owner) else {
            return Ok(false);
        };
        let idle_at = used_at + self.bounds.idle_min;
        if Instant::now() < idle_at {
            return Err(idle_at);
        }
        if let Some(entry) = table.remove(owner, number) {
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
    /// Returns what the tokens of a namespace have, and what one of them has.
    fn used_by(&self, owner: &Owner) -> (usize, usize) {
        let of_namespace = self.places.get(&owner.place);
        let of_token = of_namespace.and_then(|it| it.tokens.get(&owner.token));
        let used = of_namespace.map_or(0, |it| it.used);
        (used, of_token.map_or(0, |it| it.used))
    }

    /// Returns who has most in the namespace that has most.
    fn largest(&self) -> Option<Owner> {
        let (place, _) = self.places.iter().max_by_key(|(_, it)| it.used)?;
        self.largest_of(place)
    }

    /// Returns who has most in a namespace.
    fn largest_of(&self, place: &Arc<str>) -> Option<Owner> {
        let tokens = &self.places.get(place)?.tokens;
        let (token, _) = tokens.iter().max_by_key(|(_, it)| it.used)?;
        let (place, token) = (Arc::clone(place), Arc::clone(token));
        Some(Owner { place, token })
    }

    /// Returns the number of a token's idlest share, and since when it is idle.
    fn idlest_of(&self, owner: &Owner) -> Option<(u64, Instant)> {
        let token = self.places.get(&owner.place)?.tokens.get(&owner.token)?;
        let (number, entry) = token.shares.first_key_value()?;
        Some((*number, entry.used_at))
    }

    fn add(&mut self, owner: &Owner, entry: Entry) -> u64 {
        let number = self.next;
        self.next += 1;
        self.used += entry.room;
        let of_namespace = self.places.entry(Arc::clone(&owner.place)).or_default();
        of_namespace.used += entry.room;
        let tokens = &mut of_namespace.tokens;
        let of_token = tokens.entry(Arc::clone(&owner.token)).or_default();
        of_token.used += entry.room;
        of_token.shares.insert(number, entry);
        number
    }

    fn remove(&mut self, owner: &Owner, number: u64) -> Option<Entry> {
        let of_namespace = self.places.get_mut(&owner.place)?;
        let of_token = of_namespace.tokens.get_mut(&owner.token)?;
        let entry = of_token.shares.remove(&number)?;
        of_token.used -= entry.room;
        of_namespace.used -= entry.room;
        self.used -= entry.room;
        if of_token.shares.is_empty() {
            of_namespace.tokens.remove(&owner.token);
            if of_namespace.tokens.is_empty() {
                self.places.remove(&owner.place);
            }
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
        self.end.why.get().copied().unwrap_or(Evicted::All)
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
            Self::Token | Self::Namespace => StatusCode::TOO_MANY_REQUESTS,
            Self::All => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The text for the client: what was too much, and of whom.
    pub(crate) fn text(self, what: &str) -> String {
        match self {
            Self::Token => format!("the token has too many {what}; retry later, with fewer"),
            Self::Namespace => {
                format!("the tokens of the namespace have too many {what}; retry later, with fewer")
            }
            Self::All => format!("the server has too many {what}; retry later"),
        }
    }
}

#[cfg(test)]
mod tests;
