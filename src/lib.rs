//! An event bus that delivers on time, can prove it, and can explain itself.

pub mod duration;
pub mod retry;
