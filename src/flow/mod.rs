//! The driver: threads, a runtime, rings and handlers that carry out the decisions of
//! [`core`](crate::core).

mod attempt;
#[allow(missing_debug_implementations)] // public to benchmarks alone
pub(crate) mod board;
mod census;
mod controls;
mod crowd;
mod executor;
#[allow(missing_debug_implementations)] // public to benchmarks alone
pub(crate) mod feed;
mod gate;
mod gates;
mod gauges;
mod inbox;
mod lane;
mod lanes;
mod mailbox;
mod means;
mod mover;
mod options;
#[allow(missing_debug_implementations)] // public to benchmarks alone
pub(crate) mod pool;
#[allow(missing_debug_implementations)] // public to benchmarks alone
pub(crate) mod publisher;
mod reading;
mod registry;
mod replies;
#[allow(missing_debug_implementations)] // public to benchmarks alone
pub(crate) mod ring;
mod roll;
mod running;
mod seldom;
mod start;
mod stuck;
mod tally;
mod threads;
mod ticket;
mod ticking;
mod wake;
pub(crate) mod work;
mod worker;

pub(crate) use controls::RuntimeSettings;
pub(crate) use lane::ValuePublisher;
pub use options::{QueueChoices, QueueOptions};
pub(crate) use registry::{Check, Entry, annotations, checks, linked};
pub use registry::{Construct, Registration};
pub(crate) use replies::{CallResult, Replies};
pub(crate) use start::{Flow, Setup};
