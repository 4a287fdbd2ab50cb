//! News for the mover, from whichever thread it comes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use tokio::sync::Notify;

use crate::core::op::RequestId;
use crate::core::step::Input;
use crate::event::{BucketKey, Envelope};
use crate::store::Watcher;
use crate::time::Mono;

/// News on its way to the mover.
pub(crate) type News = Input<Arc<Envelope>>;

/// What happened and the mover has not seen yet.
///
/// Bounded by what can happen: each entry is the end of a published event, the answer to a call,
/// or a wake-up, and all of these are bounded by credits and by the number of buckets.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    mover: OnceLock<Sleeper>,
    /// The places of the buckets that this node serves.
    buckets: OnceLock<HashMap<BucketKey, usize>>,
}

#[derive(Debug, Default)]
struct Waiting {
    news: Vec<News>,
    /// Ends of attempts alone wake the mover when so many have come; anything else does at once.
    ends_at: usize,
}

/// How the mover sleeps, and so how it is woken.
#[derive(Debug)]
pub(crate) enum Sleeper {
    /// A thread with a precise timer.
    Thread(Thread),
    /// A task on a runtime whose time is virtual.
    Task(Arc<Notify>),
}

impl Inbox {
    /// Says how the mover is woken; what came before is seen at its first turn.
    pub(crate) fn belongs_to(&self, mover: Sleeper) {
        let _ = self.mover.set(mover); // a flow has one mover
    }

    /// Says which buckets' wake-ups are of interest.
    pub(crate) fn serves(&self, buckets: HashMap<BucketKey, usize>) {
        let _ = self.buckets.set(buckets); // a flow is started once
    }

    /// Adds news, and wakes the mover if it sleeps and this is worth it.
    pub(crate) fn add(&self, news: News) {
        let is_end = matches!(news, Input::Ended { .. });
        let mut waiting = self.lock();
        waiting.news.push(news);
        // Beyond the number somebody has woken it, and it has not looked since.
        let enough = waiting.news.len() == waiting.ends_at.max(1);
        drop(waiting);
        if enough || !is_end {
            self.wake();
        }
    }

    /// Takes all news there is into `news`, which must be empty.
    pub(crate) fn take(&self, news: &mut Vec<News>) {
        std::mem::swap(&mut self.lock().news, news);
    }

    /// The mover goes to sleep, until `ends_at` attempts have ended or something else happens;
    /// answers `false` when that is so already.
    pub(crate) fn may_sleep(&self, ends_at: usize) -> bool {
        let mut waiting = self.lock();
        waiting.ends_at = ends_at;
        waiting.news.len() < ends_at
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        match self.mover.get() {
            Some(Sleeper::Thread(thread)) => thread.unpark(),
            Some(Sleeper::Task(notify)) => notify.notify_one(),
            None => {}
        }
    }
}

impl Watcher for Inbox {
    fn earlier(&self, bucket: &BucketKey) {
        if let Some(bucket) = self.buckets.get().and_then(|places| places.get(bucket)) {
            self.add(Input::Woken { bucket: *bucket });
        }
    }
}

/// Until when handlers may start on a bucket's leases; written by the mover, read by workers.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    fresh_until: AtomicU64,
    lost_through: AtomicU64,
}

impl Gate {
    /// Handlers may start until then.
    pub(crate) fn fresh(&self, until: Mono) {
        self.fresh_until
            .fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// Nothing may start on leases from fetches up to `through`.
    pub(crate) fn lost(&self, through: RequestId) {
        self.lost_through.fetch_max(through, Ordering::Relaxed);
    }

    /// Whether a handler may start now on the lease of `request`.
    pub(crate) fn is_open(&self, now: Mono, request: RequestId) -> bool {
        now.as_nanos() < self.fresh_until.load(Ordering::Relaxed)
            && request > self.lost_through.load(Ordering::Relaxed)
    }
}
