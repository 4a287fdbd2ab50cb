//! The testing kit (feature `testing`): a clock moved by hand, and the store contract as a suite.

mod clock;
pub mod store_contract;

pub use self::clock::ManualClock;
