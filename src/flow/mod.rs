//! The driver: threads, a runtime, rings and handlers that carry out the decisions of
//! [`core`](crate::core).

mod call_metrics;
mod consumers;
mod handlers;
mod log_limiter;
mod membership;
mod mover;
mod node;
mod options;
mod parts;
#[allow(missing_debug_implementations)] // public to benchmarks alone
pub(crate) mod pool;
mod pull;
mod runtime_settings;
mod start;
mod stop;

pub(crate) use call_metrics::settle_kind;
pub(crate) use consumers::consumer::ValuePublisher;
pub(crate) use consumers::registry::{Check, Entry, annotations, checks, linked};
pub use consumers::registry::{Construct, Registration};
pub(crate) use handlers::decode::{DecodeError, PayloadDecoder};
pub(crate) use handlers::outside::HoldsTime;
pub(crate) use handlers::replies::{CallResult, Replies, ReplyStore};
pub(crate) use handlers::waits::{EndlessWait, QueueWaits};
pub(crate) use membership::host::host;
pub use options::{QueueChoices, QueueOptions};
pub(crate) use pull::{PullOrder, SettledPulls};
pub(crate) use runtime_settings::{DeclaredRates, RuntimeSettings};
pub(crate) use start::{Flow, Setup};
