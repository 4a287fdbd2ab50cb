//! Schedules: what recurs, and when.

mod clocks;
mod runs;
mod texts;
