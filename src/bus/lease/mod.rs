//! Consumers that pull.

mod leased;
mod outcome;
mod request;
mod settles;

pub use self::leased::{EncodedPayload, Leased};
pub use self::outcome::{EndResult, LeaseOutcome, LeaseStatus};
pub use self::request::{LEASE_MAX, LEASE_QUEUES_MAX, LEASE_WAIT_MAX, LeaseRequest};
pub use crate::bus::state::leases::token::LeaseToken;
