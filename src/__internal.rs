//! What the tests, the simulator, the benchmarks and the fuzzers of this repository reach into: no
//! part of the public face, and outside of semver.

pub use crate::core::node::{Load, Node};
pub use crate::core::op::{ChangeSink, UsedAttempts};
pub use crate::core::push::{Attempts, NextPush, PushedId};
pub use crate::core::reference::{Bucket, DedupWindow, Head, LastSettlement, Restored, Tombstone};
pub use crate::core::step::{Action, CallId, Input, Job};

/// Envelopes as rows.
pub mod wire {
    pub use crate::codec::body::View;
    pub use crate::codec::wire::{decode, encode, view};
}

/// The table of the options of a queue.
pub mod options {
    pub use duly_options::{QUEUE_OPTIONS, QueueOption, queue_option};
}

/// Spans of time as text.
pub mod duration {
    pub use crate::duration::{ParseDurationError, format, parse};
}

/// The pool of workers and what it is made of.
pub mod pool {
    pub use crate::flow::pool::deadlines::DeadlineTable;
    pub use crate::flow::pool::job_queue::JobQueue;
    pub use crate::flow::pool::publisher::{PoolClosed, Publisher};
    pub use crate::flow::pool::ring::{BadCapacity, RingConsumer, RingProducer, ring};
    pub use crate::flow::pool::work::{JobEnd, Work};
    pub use crate::flow::pool::{Pool, PoolOptions};
}

/// What lies in Redis and what servers answer, straight to what reads it.
#[cfg(feature = "redis")]
pub mod redis {
    pub use crate::codec::body::{decode, encode};
    pub use crate::store::redis::decode::{DecodedReply, ReplyReader, read, unreadable, updated};
    pub use crate::store::redis::hub::notifications::callbacks_of;
    pub use crate::store::redis::in_parts::{read_counted, read_settled};
    pub use crate::store::redis::keys::{BucketKeys, hub};
    pub use crate::store::redis::link::preflight::info;
    pub use crate::store::redis::link::topology::Slots;
    pub use crate::store::redis::link::url::{Address, Target};
    pub use crate::store::redis::outbox::read as read_outbox;
    pub use crate::store::redis::push::read as read_pushed;
    pub use crate::store::redis::record::of_entry;
    pub use crate::store::redis::registry::read_page;
    pub use crate::store::redis::scripts::{Script, all as scripts};
    pub use crate::store::redis::shared_state::{read_controls, read_members, read_queues};
}

/// What lies in the file of an embedded store, straight to what reads it.
#[cfg(feature = "embedded")]
pub mod embedded {
    pub use crate::sqlite::records::{COLUMNS, Reader, sum_of_row};
    #[cfg(feature = "testing")]
    pub use crate::store::embedded::mapped::before_each_write;
    pub use crate::store::embedded::recovery::{Recovery, recover};
    pub use crate::store::embedded::retention::{Retention, SharedKeep};
    pub use crate::store::embedded::row::Row;
    pub use crate::store::embedded::schema::loose;
    pub use crate::store::embedded::starts::Note;
    pub use crate::store::embedded::sums::{of_control, of_event};
}
