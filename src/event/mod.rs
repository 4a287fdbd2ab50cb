//! The vocabulary of events: ids, queue names, buckets, payloads, envelopes and states.

mod bucket;
mod delivered;
mod envelope;
mod id;
mod late;
mod payload;
mod queue;
mod spread;
mod state;
mod trace;
mod unique;

pub use bucket::{BUCKETS_MAX, BucketId, BucketKey};
pub use delivered::Event;
pub use envelope::{Envelope, HEADERS_MAX, Headers, TEXT_BYTES_MAX};
pub use id::{EventId, NAMED_BUCKETS};
pub use late::Late;
pub use payload::Payload;
pub use queue::QueueName;
pub(crate) use spread::check_spread;
pub use spread::{SPREAD_HEADER, SPREAD_MAX, spread_part};
pub use state::State;
pub use trace::{TRACE_HEADER, TRACE_STATE_HEADER, TRACE_STATE_MAX, TraceContext, TraceId};
pub(crate) use unique::read_unique_for;
pub use unique::{UNIQUE_FOR_MAX, UNIQUE_HEADER};
