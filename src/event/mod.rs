//! The vocabulary of events: ids, queue names, buckets, payloads, envelopes and states.

mod bucket;
pub(crate) mod delivered;
mod envelope;
pub(crate) mod id;
pub(crate) mod late;
mod occurrence;
mod payload;
mod place;
pub(crate) mod queue;
mod spread;
mod state;
mod trace;
mod unique;

pub use bucket::{BUCKET_HEADER, BUCKETS_MAX, BucketId, BucketKey};
pub(crate) use delivered::Event;
pub use envelope::{CALL_HEADER, Envelope, HEADERS_MAX, Headers, TEXT_BYTES_MAX};
pub(crate) use id::EventId;
pub use id::NAMED_BUCKETS;
pub(crate) use late::{LatePolicy, StaleReason};
pub use occurrence::{
    INSTANT_HEADER, MISSED_HEADER, Occurrence, PREVIOUS_HEADER, SCHEDULE_HEADER, SkipReason,
};
pub use payload::Payload;
pub(crate) use place::read_bucket;
#[cfg(feature = "schedules")]
pub(crate) use queue::SCHEDULES;
pub(crate) use queue::{AUDIT, PROGRAM_AUDIT, QueueName, REPLIES, has_schedules, is_audit};
pub(crate) use spread::check_spread;
#[cfg(feature = "schedules")]
pub(crate) use spread::spread_header;
pub use spread::{SPREAD_HEADER, SPREAD_MAX, spread_part};
pub use state::State;
pub use trace::{TRACE_HEADER, TRACE_STATE_HEADER, TRACE_STATE_MAX, TraceContext, TraceId};
pub(crate) use unique::read_unique_for;
pub use unique::{UNIQUE_FOR_MAX, UNIQUE_HEADER};
