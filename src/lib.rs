//! duly
#[doc(hidden)]
pub mod __private;
pub mod bus;
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

pub use bus::{Bus, BusBuilder, EventBuilder, Publisher, Queue, Receipt};
pub use core::op::{Cancelled, Changed, Unique};
pub use error::{Error, ErrorKind, Result};
pub use event::{BucketId, Event, EventId, Late, QueueName, State as EventState};
pub use flow::{QueueChoices, QueueOptions};
pub use handler::{
    Annotated, BlockingHandler, Context, Failure, FailureExt, Handler, State, delay_event,
};
pub use record::{Outcome, Record};
pub use retry::RetryPolicy;
pub use store::{Durability, Store};
pub use time::{Clock, Timestamp, When};

/// What most programs use.
pub mod prelude {
    pub use serde::{Deserialize, Serialize};

    pub use crate::{
        BlockingHandler, Bus, Cancelled, Changed, Context, Error, ErrorKind, Event, EventId,
        Failure, FailureExt, Handler, Late, Outcome, Queue, QueueChoices, Receipt, RetryPolicy,
        State, Unique, delay_event,
    };
}
