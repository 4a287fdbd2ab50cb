//! The testing kit (feature `testing`): the whole bus on a virtual clock.
//!
//! A test of a handler is a test of time: *closed after half an hour, retried a minute later, given
//! up after a week*. [`TestBus`] is the real bus with the real handlers, on a runtime whose time is
//! paused: [`advance`](TestBus::advance) runs everything that falls due, in order, and 30 days take
//! milliseconds.
//!
//! [`Probe`] is a handler that records its attempts and runs a script, for tests of code that
//! *pushes* events.
//!
//! [`ManualClock`] is a clock for tests of a store. The contract of a store is a test suite in the
//! crate `duly-conformance`.
//!
//! # Examples
//!
//! ```standalone_crate
//! use std::time::Duration;
//! use duly::prelude::*;
//! use duly::testing::TestBus;
//!
//! #[delay_event(queue = "order-close", backoff = "fixed(1m)", register = false)]
//! async fn close(event: Event<u64>) -> Result<(), Failure> {
//!     if event.attempt() < 3 {
//!         return Err(Failure::retry("the database is away"));
//!     }
//!     Ok(())
//! }
//!
//! # /*
//! #[tokio::test(start_paused = true)]
//! # */
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! # an_order_is_closed_at_the_third_attempt().await.unwrap() }
//! async fn an_order_is_closed_at_the_third_attempt() -> duly::Result<()> {
//!     let bus = TestBus::start(Bus::builder().register(close {})).await?;
//!     let sent = bus.queue::<close>().push(7, Duration::from_secs(1_800)).await?;
//!
//!     bus.advance(Duration::from_secs(30 * 86_400)).await;
//!
//!     let minutes = [30, 31, 32].map(|minutes| Duration::from_secs(minutes * 60));
//!     assert_eq!(bus.starts(sent.id()).await?, minutes);
//!     assert_eq!(
//!         bus.outcomes(sent.id()).await?,
//!         [Outcome::Retried, Outcome::Retried, Outcome::Acked]
//!     );
//!     Ok(())
//! }
//! ```

mod bus;
mod clock;
mod outside;
mod probe;
mod quiet;
mod records;
mod virtual_clock;

pub use self::bus::TestBus;
pub use self::clock::ManualClock;
pub use self::outside::outside;
pub use self::probe::{Probe, ProbeAttempt};
pub use self::records::records;
pub use self::virtual_clock::VirtualClock;
