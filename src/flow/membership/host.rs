//! The name of this machine, by which people find a node.

use std::sync::Arc;

use crate::core::membership::host_name;

/// Returns the name of this machine, or of its container; empty if nothing tells it.
pub(crate) fn host() -> Arc<str> {
    // The kernel's, and where it has no such file what shells and Windows call it.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.or_else(|| std::env::var("COMPUTERNAME").ok());
    host_name(&name.unwrap_or_default())
}
