//! Membership: the polls of members and settings, the watch of the clocks, and the depth sampler.

pub(in crate::flow) mod clock_watch;
pub(in crate::flow) mod depth_sampler;
pub(in crate::flow) mod poll;
