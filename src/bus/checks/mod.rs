//! Checks: whether this build can read all payloads, and whether the store is damaged.

mod payloads;
mod store;

pub use payloads::{PayloadCheck, PayloadReport, UndecodablePayload};
pub use store::{StoreCheck, StoreReport};
