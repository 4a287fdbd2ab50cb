//! News for the mover, from whichever thread it comes.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::thread::Thread;

use tokio::sync::Notify;

use crate::core::step::Input;
use crate::event::{BucketKey, Envelope, QueueName};
use crate::flow::census;
use crate::flow::mailbox::Mailbox;
use crate::store::Watcher;

/// News on its way to the mover.
pub(crate) type News = Input<Arc<Envelope>>;

/// What happened and the mover has not seen yet.
///
/// Bounded by what can happen: each entry is the end of a published event, the answer to a call,
/// a wake-up or a roll call, and all of these are bounded by credits, by the number of buckets
/// and by time.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    news: Mailbox<News>,
    mover: OnceLock<Sleeper>,
    /// The places of the buckets that this node serves.
    buckets: RwLock<HashMap<BucketKey, usize>>,
    /// The places of the queues that it serves.
    queues: OnceLock<HashMap<QueueName, usize>>,
    /// What the census wants to hear of, once there is one.
    census: OnceLock<census::News>,
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

    /// Says which queues this node serves.
    pub(crate) fn consumes(&self, queues: HashMap<QueueName, usize>) {
        let _ = self.queues.set(queues); // a flow is started once
    }

    /// Lets the node serve a bucket of the queue at a place, unless it does already.
    pub(crate) fn serve(&self, queue: usize, bucket: BucketKey) {
        if self.place(&bucket).is_none() {
            self.add(Input::Serve { queue, bucket });
        }
    }

    /// Says that a bucket is served, at this place: its wake-ups are of interest.
    pub(crate) fn serves(&self, bucket: BucketKey, place: usize) {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        buckets.insert(bucket, place);
    }

    /// In which buckets something came, from the first call on.
    pub(crate) fn news(&self) -> &census::News {
        self.census.get_or_init(census::News::default)
    }

    /// The place of a bucket that this node serves.
    pub(crate) fn place(&self, bucket: &BucketKey) -> Option<usize> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        buckets.get(bucket).copied()
    }

    /// Adds news, and wakes the mover if it sleeps and this is worth it.
    pub(crate) fn add(&self, news: News) {
        let is_end = matches!(news, Input::Ended { .. });
        if self.news.add(news, is_end) {
            self.wake();
        }
    }

    /// Takes all news there is into `news`, which must be empty.
    pub(crate) fn take(&self, news: &mut Vec<News>) {
        self.news.take(news);
    }

    /// The mover goes to sleep, until `ends_at` attempts have ended or something else happens;
    /// answers `false` when that is so already.
    pub(crate) fn may_sleep(&self, ends_at: usize) -> bool {
        self.news.may_sleep(ends_at)
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
    fn called(&self, bucket: &BucketKey) {
        if let Some(bucket) = self.place(bucket) {
            self.add(Input::Called { bucket });
        }
    }

    fn earlier(&self, bucket: &BucketKey) {
        if let Some(news) = self.census.get() {
            news.note(bucket);
        }
        if let Some(bucket) = self.place(bucket) {
            return self.add(Input::Woken { bucket });
        }
        // Somebody spreads his events over more buckets than this node knows of.
        let queue = self
            .queues
            .get()
            .and_then(|places| places.get(&bucket.queue));
        if let Some(queue) = queue {
            self.serve(*queue, bucket.clone());
        }
    }
}
