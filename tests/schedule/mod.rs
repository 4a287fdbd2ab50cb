//! Schedules: what recurs, and when.

mod clocks;
mod texts;
