//! duly
#[doc(hidden)]
pub mod __private;
pub mod config;
pub mod core;
pub mod duration;
pub mod error;
pub mod event;
pub mod flow;
pub mod handler;
pub mod record;
pub mod retry;
pub mod store;
pub mod time;

pub use error::{Error, ErrorKind, Result};
pub use event::{BucketId, Event, EventId, QueueName, State as EventState};
pub use handler::{
    Annotated, BlockingHandler, Context, Failure, FailureExt, Handler, State, delay_event,
};
pub use retry::RetryPolicy;
pub use time::{Timestamp, When};
