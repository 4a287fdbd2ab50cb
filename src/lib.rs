//! duly

pub mod codec;
pub mod core;
pub mod error;
pub mod event;
pub mod record;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;

pub use error::{Error, ErrorKind, Result};
pub use event::{BucketId, EventId, QueueName, State};
pub use time::Timestamp;
