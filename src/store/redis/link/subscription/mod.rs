//! A subscription to channels, each on the server that has it.
//!
//! The channels are sharded, so that in a cluster a message stays on the nodes that have the key of
//! its name. Messages are hints: one may be lost while a channel is not subscribed to. So whenever it
//! is subscribed to, again or for the first time, that is [reported](Receiver::subscribed), for one
//! poll; all other polls are rare.

mod connection;
mod task;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use self::task::SubscriptionTask;
use super::options::ConnectionOptions;
use super::url::Target;

/// What takes the messages of channels that stand for values of type `T`. It runs on a thread of the
/// runtime, so it must not block.
pub(in crate::store::redis) trait Receiver<T>: Send + Sync {
    /// A message has come.
    fn message(&self, subject: &T, text: &[u8]);

    /// A channel was subscribed to, or cannot be: messages before may have been lost.
    fn subscribed(&self, subject: &T);

    /// Returns whether nobody needs a channel any more: it goes, until it is added again.
    fn removes_idle(&self, subject: &T) -> bool;
}

/// A subscription, and the connections that carry it.
pub(in crate::store::redis) struct Subscription<T> {
    channels: Arc<Channels<T>>,
    task: AbortHandle,
}

/// The channels, which the subscription and its connections share.
struct Channels<T> {
    subjects: RwLock<HashMap<Vec<u8>, T>>,
    receiver: Box<dyn Receiver<T>>,
    /// Notified when channels are added.
    grown: Notify,
    is_healthy: AtomicBool,
}

impl<T> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channels = self.channels.len();
        f.debug_struct("Subscription")
            .field("channels", &channels)
            .field("is_healthy", &self.is_healthy())
            .finish_non_exhaustive()
    }
}

impl<T> Subscription<T> {
    /// Returns whether every channel is subscribed, as far as is known: a server that hangs is
    /// detected within some 20 seconds.
    pub(in crate::store::redis) fn is_healthy(&self) -> bool {
        self.channels.is_healthy.load(Ordering::Acquire)
    }

    /// Ends the subscription.
    pub(in crate::store::redis) fn close(&self) {
        self.task.abort();
        self.channels.set_healthy(false);
    }
}

impl<T: Clone + Send + Sync + 'static> Subscription<T> {
    /// Subscribes to the channels that are [added](Self::add), on connections of its own. It never
    /// fails: connecting is retried, and until it succeeds the subscription is not healthy.
    ///
    /// It is probed whenever `replaced` changes: another connection to the servers was replaced, and
    /// one that only receives would find out much later that it has ended as well.
    pub(in crate::store::redis) fn open(
        target: &Target,
        options: &ConnectionOptions,
        replaced: watch::Receiver<u64>,
        receiver: Box<dyn Receiver<T>>,
    ) -> Self {
        let channels = Arc::new(Channels::new(receiver));
        let (target, options_of_task) = (target.clone(), options.clone());
        let task = SubscriptionTask::new(target, options_of_task, Arc::clone(&channels), replaced);
        let task = options.spawn(task.run()).abort_handle();
        Self { channels, task }
    }

    /// Adds channels, and what each stands for.
    pub(in crate::store::redis) fn add(&self, channels: impl IntoIterator<Item = (Vec<u8>, T)>) {
        self.channels.add(channels);
    }
}

impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<T> Channels<T> {
    fn new(receiver: Box<dyn Receiver<T>>) -> Self {
        Self {
            subjects: RwLock::default(),
            receiver,
            grown: Notify::new(),
            is_healthy: AtomicBool::new(false),
        }
    }

    fn add(&self, channels: impl IntoIterator<Item = (Vec<u8>, T)>) {
        let mut has_grown = false;
        {
            let mut subjects = self.subjects.write();
            for (channel, subject) in channels {
                subjects.entry(channel).or_insert_with(|| {
                    has_grown = true;
                    subject
                });
            }
            if has_grown {
                self.set_healthy(false);
            }
        }
        if has_grown {
            self.grown.notify_one();
        }
    }

    fn len(&self) -> usize {
        self.subjects.read().len()
    }

    /// Removes and returns the channels that nobody needs any more.
    fn remove_idle(&self) -> Vec<Vec<u8>> {
        // Under one lock, so that one that is added again meanwhile is added after this.
        let mut subjects = self.subjects.write();
        let idle = subjects.extract_if(|_, subject| self.receiver.removes_idle(subject));
        idle.map(|(channel, _)| channel).collect()
    }

    /// Returns the channels for which `is_missing` holds.
    fn missing(&self, is_missing: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let subjects = self.subjects.read();
        let channels = subjects.keys().filter(|channel| is_missing(channel));
        channels.cloned().collect()
    }

    /// Sets it healthy, unless there are more channels than are `subscribed`: some may have been
    /// added just now.
    fn set_healthy_with(&self, subscribed: usize) {
        let subjects = self.subjects.read();
        self.set_healthy(subjects.len() <= subscribed);
    }

    fn set_healthy(&self, is_healthy: bool) {
        self.is_healthy.store(is_healthy, Ordering::Release);
    }
}

impl<T: Clone> Channels<T> {
    /// Passes a message on.
    fn message(&self, push: &PushInfo) {
        debug_assert_eq!(push.kind, PushKind::SMessage);
        if let [Value::BulkString(channel), Value::BulkString(text)] = push.data.as_slice()
            && let Some(subject) = self.subject(channel)
        {
            self.receiver.message(&subject, text);
        }
    }

    /// Reports that messages of a channel may have been lost.
    fn subscribed(&self, channel: &[u8]) {
        if let Some(subject) = self.subject(channel) {
            self.receiver.subscribed(&subject);
        }
    }

    fn subject(&self, channel: &[u8]) -> Option<T> {
        let subjects = self.subjects.read();
        subjects.get(channel).cloned()
    }
}

/// Passes a push to a receiver, where one channel is subscribed, without a server.
pub(in crate::store::redis) fn receive<T: Clone>(
    channel: Vec<u8>,
    subject: T,
    receiver: Box<dyn Receiver<T>>,
    push: &PushInfo,
) {
    let channels = Channels::new(receiver);
    channels.add([(channel, subject)]);
    if push.kind == PushKind::SMessage {
        channels.message(push);
    }
}
