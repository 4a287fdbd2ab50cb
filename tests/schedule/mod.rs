//! Schedules: what recurs, and when.

mod changes;
mod clocks;
mod deaths;
mod declared;
mod explained;
mod many;
mod runs;
mod stops;
mod texts;
mod trouble;
