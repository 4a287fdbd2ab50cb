//! The push pipeline: options, prepared events, batches of one bucket, receipts.

mod batch;
pub(in crate::bus) mod event;
pub(in crate::bus) mod many;
mod prepare;
mod queue;
pub(in crate::bus) mod receipt;
