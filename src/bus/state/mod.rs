//! The state of a bus in memory, beside its store; nothing here knows the bus.

pub(in crate::bus) mod forecasts;
pub(in crate::bus) mod ids;
pub(in crate::bus) mod leases;
pub(in crate::bus) mod names;
pub(in crate::bus) mod outboxes;
pub(in crate::bus) mod program_actions;
pub(in crate::bus) mod round_trips;
pub(in crate::bus) mod stop;
