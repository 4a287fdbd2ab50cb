//! Consumers: the queues that this process serves, each with its handler, pool and settings.

pub(in crate::flow) mod consumer;
pub(in crate::flow) mod gauges;
pub(in crate::flow) mod registry;
pub(in crate::flow) mod runtime_watch;
pub(in crate::flow) mod set;
pub(in crate::flow) mod stuck;
