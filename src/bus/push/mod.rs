//! The push pipeline: options, prepared events, batches of one bucket, receipts.

mod batch;
mod each;
pub(in crate::bus) mod event;
pub(in crate::bus) mod many;
pub(in crate::bus) mod options;
mod placed;
mod prepare;
mod queue;
pub(in crate::bus) mod receipt;
pub(in crate::bus) mod relay;
pub(in crate::bus) mod stage;
pub(in crate::bus) mod staged;
