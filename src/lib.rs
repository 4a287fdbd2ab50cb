//! An event bus that delivers on time, can prove it, and can explain itself.

#[doc(hidden)]
pub mod __private;
pub mod duration;
pub mod event;
pub mod handler;
pub mod retry;

pub use event::Event;
pub use handler::{BlockingHandler, Context, Failure, Handler, State, delay_event};
