//! Facts about its servers that a store finds at its start.

use crate::store::durability::Durability;
use crate::store::redis::link::preflight::Version;

/// The findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct ServerFacts {
    /// The version of the oldest server.
    pub(in crate::store::redis) version: Version,
    /// The failures that an acknowledged push survives on the weakest server.
    pub(in crate::store::redis) durability: Durability,
    /// Whether the servers have said what is set, or kept silent.
    pub(in crate::store::redis) says_settings: bool,
    /// Whether `WAITAOF` is available.
    pub(in crate::store::redis) waits_for_disk: bool,
    /// The offset of the server's clock from this node's, in microseconds.
    pub(in crate::store::redis) offset_us: i64,
    /// Whether the user may load functions and call them.
    pub(in crate::store::redis) allows_functions: bool,
}
