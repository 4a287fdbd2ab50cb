//! Schedules: what recurs, and when.

mod changes;
mod clocks;
mod runs;
mod texts;
