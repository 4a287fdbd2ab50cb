//! The driver of a node: the mover thread and its input, leases and store calls.

pub(in crate::flow) mod call_metrics;
pub(in crate::flow) mod inbox;
pub(in crate::flow) mod lease_fence;
pub(in crate::flow) mod lease_fences;
pub(in crate::flow) mod mailbox;
pub(in crate::flow) mod mover;
