//! Membership: the polls of members and settings, and the depth sampler.

pub(in crate::flow) mod depth_sampler;
pub(in crate::flow) mod poll;
