//! The builder of a bus: its options, its queues, its start.

pub(in crate::bus) mod options;
mod queues;
#[cfg(feature = "schedules")]
mod schedule_setup;
mod start;
