//! duly

pub mod codec;
pub mod core;
pub mod error;
pub mod event;
pub mod record;
pub mod store;
pub mod time;

pub use error::{Error, ErrorKind, Result};
pub use event::{BucketId, EventId, QueueName, State};
pub use time::Timestamp;
