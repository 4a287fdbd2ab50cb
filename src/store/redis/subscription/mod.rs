//! Pub/sub notifications from Redis: wake-ups and calls for help, by bucket.
//!
//! Scripts publish on a channel of the bucket that they change, sharded, so that in a cluster a
//! message stays on the nodes that have the bucket. Messages are hints: a lost one costs the time
//! until the next poll. So whenever a channel is subscribed to, again or for the first time, its
//! bucket is polled once; and [`Notifications::is_healthy`] reports whether every channel is subscribed, so
//! that polls can be rare while it is.

mod connection;
mod task;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use self::task::SubscriptionTask;
use super::keys;
use super::options::ConnectionOptions;
use super::url::Target;
use crate::event::BucketKey;

/// The callbacks; they run on a thread of the runtime, so they must not block.
pub(super) struct NotificationCallbacks {
    /// A bucket has earlier work, or may have.
    pub(super) earlier: Box<dyn Fn(&BucketKey) + Send + Sync>,
    /// A bucket has ready events for which another process has no capacity.
    pub(super) called: Box<dyn Fn(&BucketKey) + Send + Sync>,
}

/// The subscription of one process.
pub(super) struct Notifications {
    heard: Arc<Subscription>,
    engine: AbortHandle,
}

/// The state that the subscription and its connections share.
struct Subscription {
    prefix: String,
    /// The origin in messages of this process, which it ignores.
    origin: Vec<u8>,
    told: NotificationCallbacks,
    channels: RwLock<HashMap<Vec<u8>, BucketKey>>,
    /// Notified when channels are added.
    grown: Notify,
    is_healthy: AtomicBool,
}

impl fmt::Debug for Notifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channels = self.heard.channels.read();
        let channels = channels.unwrap_or_else(PoisonError::into_inner).len();
        f.debug_struct("Notifications")
            .field("channels", &channels)
            .field("is_healthy", &self.is_healthy())
            .finish_non_exhaustive()
    }
}

impl Notifications {
    /// Subscribes to the buckets that are [added](Self::add), on connections of its own. It never
    /// fails: connecting is retried, and until it succeeds the subscription is not healthy.
    ///
    /// `origin` identifies the messages that this process's own calls cause.
    pub(super) fn open(
        target: &Target,
        options: &ConnectionOptions,
        prefix: &str,
        origin: &str,
        told: NotificationCallbacks,
    ) -> Self {
        let heard = Arc::new(Subscription {
            prefix: prefix.to_owned(),
            origin: origin.as_bytes().to_vec(),
            told,
            channels: RwLock::default(),
            grown: Notify::new(),
            is_healthy: AtomicBool::new(false),
        });
        let options = options.clone().named("duly-news");
        let of = options.clone();
        let engine = SubscriptionTask::new(target.clone(), options, Arc::clone(&heard));
        let engine = of.spawn(engine.run()).abort_handle();
        Self { heard, engine }
    }

    /// Adds buckets.
    pub(super) fn add<'a>(&self, buckets: impl IntoIterator<Item = &'a BucketKey>) {
        let mut has_grown = false;
        {
            let channels = self.heard.channels.write();
            let mut channels = channels.unwrap_or_else(PoisonError::into_inner);
            for bucket in buckets {
                let channel = keys::part(&self.heard.prefix, bucket, "wake").into_bytes();
                channels.entry(channel).or_insert_with(|| {
                    has_grown = true;
                    bucket.clone()
                });
            }
            if has_grown {
                self.heard.set_healthy(false);
            }
        }
        if has_grown {
            self.heard.grown.notify_one();
        }
    }

    /// Returns whether every channel is subscribed, as far as is known: a server that hangs is
    /// detected within some 20 seconds.
    pub(super) fn is_healthy(&self) -> bool {
        self.heard.is_healthy.load(Ordering::Acquire)
    }

    /// Ends the subscription.
    pub(super) fn close(&self) {
        self.engine.abort();
        self.heard.set_healthy(false);
    }
}

impl Drop for Notifications {
    fn drop(&mut self) {
        self.close();
    }
}

impl Subscription {
    /// Handles a message.
    fn message(&self, push: &PushInfo) {
        debug_assert_eq!(push.kind, PushKind::SMessage);
        let [Value::BulkString(channel), Value::BulkString(said)] = push.data.as_slice() else {
            return;
        };
        match said.strip_prefix(b"!") {
            Some(caller) if caller == self.origin => {}
            Some(_) => {
                if let Some(bucket) = self.bucket(channel) {
                    (self.told.called)(&bucket);
                }
            }
            None if *said == self.origin => {}
            None => self.look(channel),
        }
    }

    fn bucket(&self, channel: &[u8]) -> Option<BucketKey> {
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner);
        channels.get(channel).cloned()
    }

    /// Has the bucket of a channel polled.
    fn look(&self, channel: &[u8]) {
        if let Some(bucket) = self.bucket(channel) {
            (self.told.earlier)(&bucket);
        }
    }

    /// Returns the channels for which `is_missing` holds.
    fn missing(&self, is_missing: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner);
        let channels = channels.keys().filter(|channel| is_missing(channel));
        channels.cloned().collect()
    }

    /// Sets it healthy, unless there are more channels than `listened`: some may have been added
    /// just now.
    fn set_healthy_with(&self, listened: usize) {
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner);
        self.set_healthy(channels.len() <= listened);
    }

    fn set_healthy(&self, is_healthy: bool) {
        self.is_healthy.store(is_healthy, Ordering::Release);
    }
}

/// Returns how often a message causes a callback, where one bucket is subscribed.
pub fn told_of(prefix: &str, bucket: &BucketKey, push: &PushInfo) -> usize {
    use std::sync::atomic::AtomicUsize;

    let count_one = |count: &AtomicUsize| {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let count = Arc::new(AtomicUsize::new(0));
    let [earlier, called] = [(); 2].map(|()| Arc::clone(&count));
    let channel = keys::part(prefix, bucket, "wake").into_bytes();
    let heard = Subscription {
        prefix: prefix.to_owned(),
        origin: b"me".to_vec(),
        told: NotificationCallbacks {
            earlier: Box::new(move |_| count_one(&earlier)),
            called: Box::new(move |_| count_one(&called)),
        },
        channels: RwLock::new(HashMap::from([(channel, bucket.clone())])),
        grown: Notify::new(),
        is_healthy: AtomicBool::new(false),
    };
    if push.kind == PushKind::SMessage {
        heard.message(push);
    }
    count.load(Ordering::Relaxed)
}
