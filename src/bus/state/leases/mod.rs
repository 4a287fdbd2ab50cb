//! The leases of a bus's callers.

pub(in crate::bus) mod held;
pub(in crate::bus) mod settles;
pub(in crate::bus) mod token;

use self::held::HeldLeases;
use self::settles::Settles;

/// What a bus knows of the leases of its callers.
#[derive(Debug, Default)]
pub(in crate::bus) struct Leases {
    pub(in crate::bus) held: HeldLeases,
    pub(in crate::bus) settles: Settles,
}
