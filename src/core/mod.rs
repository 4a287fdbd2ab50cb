//! The decision core: pure code without I/O.
//!
//! It has the store operations as values ([`op`]), their semantics ([`reference`](mod@reference))
//! and the state machines of a node. No threads, runtime, clock or random numbers: time and replies
//! are arguments, actions are return values. `flow` drives it for real; `tests/simulation` drives
//! it on virtual time, from a seed, with injected faults.

mod bucket_care;
mod clock;
mod held;
mod holdings;
mod lease;
mod members;
mod mover;
pub mod node;
pub mod op;
pub mod options;
pub mod push;
mod queue_care;
mod rate;
mod reaper;
pub mod reference;
pub mod roll;
mod settle;
mod standby;
mod starts;
pub mod step;
