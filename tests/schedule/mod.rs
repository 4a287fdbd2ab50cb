//! Schedules: what recurs, and when.

mod changes;
mod clocks;
mod declared;
mod runs;
mod texts;
