//! What decides, apart from what does.
//!
//! Here are the store's operations as values ([`op`]), their meaning ([`reference`](mod@reference)) and the state
//! machines of a node. None of it knows a thread, a runtime, a clock or a random number: time and
//! answers come in as arguments, and what should happen comes out as values. The driver in
//! `flow` does it for real; the simulator in `tests/simulation` does it on virtual time, from a
//! seed, with everything going wrong that can.

mod bucket_care;
mod clock;
mod held;
mod holdings;
mod lease;
mod members;
mod mover;
pub(crate) mod node;
pub(crate) mod op;
pub(crate) mod options;
pub(crate) mod push;
mod queue_care;
mod rate;
mod reaper;
pub(crate) mod reference;
pub(crate) mod roll;
mod settle;
mod standby;
mod starts;
pub(crate) mod step;
