//! A conformance suite for stores of [`duly`], and checkers of event histories.
//!
//! [`store_contract`] is the contract of a store as a suite of tests, for custom stores.
//! [`history`] is a log of events as JSON lines, with checkers that compare it with the promises.

pub mod history;
pub mod store_contract;
