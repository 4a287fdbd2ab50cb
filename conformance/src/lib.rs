//! What a store of [`duly`] must do, as tests, and checkers of what happened to events.
//!
//! [`store_contract`] is the contract of a store as a suite of tests, for a store of your own.
//! [`history`] is what happened to events as JSON lines, and the checkers that hold it against
//! what is promised.

pub mod history;
pub mod store_contract;
