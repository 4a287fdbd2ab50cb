//! The mover's inbox, filled from any thread.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::core::step::Input;
use crate::event::{BucketKey, Envelope, QueueName};
use crate::flow::node::active_buckets::ActiveBuckets;
use crate::flow::node::mailbox::Mailbox;
use crate::store::Watcher;

/// An input on its way to the mover.
pub(crate) type NodeInput = Input<Arc<Envelope>>;

/// The inputs that the mover has not seen yet.
///
/// Bounded by their sources: each entry is the end of an event, the result of a call, a wake-up or
/// a membership poll, and these are bounded by credits, by the number of buckets and by time.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    mailbox: Mailbox<NodeInput>,
    mover: OnceLock<WakeTarget>,
    /// The indexes of the buckets that this node serves.
    buckets: RwLock<HashMap<BucketKey, usize>>,
    /// The indexes of the queues that it serves.
    queues: OnceLock<HashMap<QueueName, usize>>,
    /// The notifications of the depth sampler, if there is one.
    active_buckets: OnceLock<ActiveBuckets>,
}

/// How the mover sleeps, and so how it is woken.
#[derive(Debug)]
pub(crate) enum WakeTarget {
    /// A thread with a precise timer.
    Thread(Thread),
    /// A task on a runtime whose time is virtual.
    Task(Arc<Notify>),
}

impl Inbox {
    /// Sets how the mover is woken. It sees earlier inputs at its first turn.
    pub(crate) fn set_wake_target(&self, mover: WakeTarget) {
        let _ = self.mover.set(mover); // a flow has one mover
    }

    /// Sets the queues that this node serves.
    pub(crate) fn consumes(&self, queues: HashMap<QueueName, usize>) {
        let _ = self.queues.set(queues); // a flow is started once
    }

    /// Adds a bucket of the queue at an index to the node, unless it has it already.
    pub(crate) fn serve(&self, queue: usize, bucket: BucketKey) {
        if self.place(&bucket).is_none() {
            self.add(Input::Serve { queue, bucket });
        }
    }

    /// Registers a bucket at its index: its wake-ups are delivered.
    pub(crate) fn serves(&self, bucket: BucketKey, place: usize) {
        let mut buckets = self.buckets.write();
        buckets.insert(bucket, place);
    }

    /// Returns the buckets that received events, tracked from the first call on.
    pub(crate) fn active_buckets(&self) -> &ActiveBuckets {
        self.active_buckets.get_or_init(ActiveBuckets::default)
    }

    /// Returns the index of a bucket that this node serves.
    pub(crate) fn place(&self, bucket: &BucketKey) -> Option<usize> {
        let buckets = self.buckets.read();
        buckets.get(bucket).copied()
    }

    /// Adds an input, and wakes the mover if it sleeps and this is worth it.
    pub(crate) fn add(&self, input: NodeInput) {
        let is_end = matches!(input, Input::Ended { .. });
        if self.mailbox.add(input, is_end) {
            self.wake();
        }
    }

    /// Takes all inputs into `inputs`, which must be empty.
    pub(crate) fn take(&self, inputs: &mut Vec<NodeInput>) {
        self.mailbox.take(inputs);
    }

    /// Prepares to sleep until `ends_at` attempts have ended or something else happens; returns
    /// `false` when that is so already.
    pub(crate) fn may_sleep(&self, ends_at: usize) -> bool {
        self.mailbox.may_sleep(ends_at)
    }

    /// Wakes the mover.
    pub(crate) fn wake(&self) {
        match self.mover.get() {
            Some(WakeTarget::Thread(thread)) => thread.unpark(),
            Some(WakeTarget::Task(notify)) => notify.notify_one(),
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
        if let Some(active) = self.active_buckets.get() {
            active.note(bucket);
        }
        if let Some(bucket) = self.place(bucket) {
            return self.add(Input::Woken { bucket });
        }
        // A pusher uses more buckets than this node knows of.
        let queue = self
            .queues
            .get()
            .and_then(|places| places.get(&bucket.queue));
        if let Some(queue) = queue {
            self.serve(*queue, bucket.clone());
        }
    }
}
