//! Notifications of buckets: wake-ups and calls for help.
//!
//! Scripts publish on a channel of the bucket that they change. A message that is lost costs the time
//! until the next poll; so whenever a channel is subscribed to, its bucket is polled once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::PushInfo;
use tokio::sync::watch;

use crate::event::BucketKey;
use crate::store::redis::hub::origin::Origin;
use crate::store::redis::link::options::ConnectionOptions;
use crate::store::redis::link::subscription::{self, Receiver, Subscription};
use crate::store::redis::link::url::Target;
use crate::store::redis::script::keys;

/// The callbacks; they run on a thread of the runtime, so they must not block.
pub(in crate::store::redis) struct NotificationCallbacks {
    /// A bucket has earlier work, or may have.
    pub(in crate::store::redis) earlier: Box<dyn Fn(&BucketKey) + Send + Sync>,
    /// A bucket has ready events for which another process has no capacity.
    pub(in crate::store::redis) called: Box<dyn Fn(&BucketKey) + Send + Sync>,
    /// Nobody polls a bucket any more, and it counts as new when somebody does.
    pub(in crate::store::redis) removes_idle: Box<dyn Fn(&BucketKey) -> bool + Send + Sync>,
}

/// The notifications that one process receives.
#[derive(Debug)]
pub(in crate::store::redis) struct Notifications {
    prefix: String,
    subscription: Subscription<BucketKey>,
}

impl Notifications {
    /// Subscribes to the buckets that are [added](Self::add), as [`Subscription::open`] does.
    ///
    /// `origin` identifies the messages that this process's own calls cause, and `replaced` counts
    /// the connections that carry calls.
    pub(in crate::store::redis) fn open(
        target: &Target,
        options: &ConnectionOptions,
        prefix: &str,
        origin: &Origin,
        replaced: watch::Receiver<u64>,
        callbacks: NotificationCallbacks,
    ) -> Self {
        let messages = Messages {
            origin: origin.clone(),
            callbacks,
        };
        let options = options.clone().named("duly-news");
        Self {
            prefix: prefix.to_owned(),
            subscription: Subscription::open(target, &options, replaced, Box::new(messages)),
        }
    }

    /// Adds buckets.
    pub(in crate::store::redis) fn add<'a>(
        &self,
        buckets: impl IntoIterator<Item = &'a BucketKey>,
    ) {
        let channels = buckets.into_iter();
        let channels = channels.map(|bucket| (channel(&self.prefix, bucket), bucket.clone()));
        self.subscription.add(channels);
    }

    /// Returns whether every bucket is subscribed, as [`Subscription::is_healthy`] does.
    #[cfg(test)]
    pub(in crate::store::redis) fn is_healthy(&self) -> bool {
        self.subscription.is_healthy()
    }

    /// Ends the subscription.
    pub(in crate::store::redis) fn close(&self) {
        self.subscription.close();
    }
}

fn channel(prefix: &str, bucket: &BucketKey) -> Vec<u8> {
    keys::part(prefix, bucket, "wake").into_bytes()
}

/// A decoder of messages: one has the origin that caused it, after a `!` if it calls for help.
struct Messages {
    /// The origin of this process, whose messages are ignored.
    origin: Origin,
    callbacks: NotificationCallbacks,
}

impl Receiver<BucketKey> for Messages {
    fn message(&self, bucket: &BucketKey, text: &[u8]) {
        let (origin, callback) = match text.strip_prefix(b"!") {
            Some(caller) => (caller, &self.callbacks.called),
            None => (text, &self.callbacks.earlier),
        };
        if !self.origin.is(origin) {
            callback(bucket);
        }
    }

    fn subscribed(&self, bucket: &BucketKey) {
        (self.callbacks.earlier)(bucket);
    }

    fn removes_idle(&self, bucket: &BucketKey) -> bool {
        (self.callbacks.removes_idle)(bucket)
    }
}

/// Returns how often a message causes a callback, where one bucket is subscribed.
pub fn callbacks_of(prefix: &str, bucket: &BucketKey, push: &PushInfo) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let counts = || {
        let count = Arc::clone(&count);
        Box::new(move |_: &BucketKey| {
            count.fetch_add(1, Ordering::Relaxed);
        })
    };
    let messages = Messages {
        origin: Origin::of("me"),
        callbacks: NotificationCallbacks {
            earlier: counts(),
            called: counts(),
            removes_idle: Box::new(|_| false),
        },
    };
    let channel = channel(prefix, bucket);
    subscription::receive(channel, bucket.clone(), Box::new(messages), push);
    count.load(Ordering::Relaxed)
}
