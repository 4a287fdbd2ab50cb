//! The event: its identity, its queue, its bytes and its states.

mod bucket;
mod delivered;
mod envelope;
mod id;
mod payload;
mod queue;
mod state;
mod trace;

pub use bucket::{BUCKETS_MAX, BucketId, BucketKey};
pub use delivered::Event;
pub use envelope::{Envelope, HEADERS_MAX, Headers, Late, TEXT_BYTES_MAX};
pub use id::EventId;
pub use payload::Payload;
pub use queue::QueueName;
pub use state::State;
pub use trace::{TRACE_HEADER, TRACE_STATE_HEADER, TRACE_STATE_MAX, TraceContext, TraceId};
