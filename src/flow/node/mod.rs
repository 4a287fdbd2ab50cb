//! The shared parts of a node: the input of its mover, and the fences of its leases.

pub(in crate::flow) mod active_buckets;
pub(in crate::flow) mod inbox;
pub(in crate::flow) mod lease_fence;
pub(in crate::flow) mod lease_fences;
pub(in crate::flow) mod mailbox;
