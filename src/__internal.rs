//! The parts that tests, the simulator, benchmarks and fuzzers of this repository use: no
//! part of the public face, and outside of semver.

pub use crate::core::engine::{
    Bucket, DedupWindow, ForgottenIds, Head, LastSettlement, Restored, Tombstone,
};
pub use crate::core::node::{Load, Node};
pub use crate::core::op::{ChangeSink, UsedAttempts};
pub use crate::core::push::{Attempts, NextPush, PushedId};
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
    pub use crate::store::redis::hub::members::{read_host, read_members, read_queues};
    pub use crate::store::redis::hub::notifications::callbacks_of;
    pub use crate::store::redis::hub::registry::read_page;
    pub use crate::store::redis::hub::settings::read_controls;
    pub use crate::store::redis::link::preflight::info;
    pub use crate::store::redis::link::script::Script;
    pub use crate::store::redis::link::topology::Slots;
    pub use crate::store::redis::link::url::{Address, Target};
    pub use crate::store::redis::op::outbox::read as read_outbox;
    pub use crate::store::redis::op::push_script::read as read_pushed;
    pub use crate::store::redis::op::read;
    pub use crate::store::redis::op::record::of_entry;
    pub use crate::store::redis::op::reply::DecodedReply;
    pub use crate::store::redis::op::revive::read_counted;
    pub use crate::store::redis::op::settle::read_settled;
    pub use crate::store::redis::op::update::read_updated;
    pub use crate::store::redis::preflight::scripts;
    pub use crate::store::redis::script::keys::{BucketKeys, hub};
    pub use crate::store::redis::script::reader::{ReplyReader, unreadable};
}

/// What lies in the file of an embedded store, straight to what reads it.
#[cfg(feature = "embedded")]
pub mod embedded {
    pub use crate::sqlite::records::{COLUMNS, Reader, sum_of_row};
    #[cfg(feature = "testing")]
    pub use crate::store::embedded::mapped::before_each_write;
    pub use crate::store::embedded::recovery::{Recovery, recover};
    pub use crate::store::embedded::row::Row;
    pub use crate::store::embedded::schema::loose;
    pub use crate::store::embedded::starts::Note;
    pub use crate::store::embedded::sums::{of_control, of_event};
}
