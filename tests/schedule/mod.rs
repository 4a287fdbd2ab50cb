//! Schedules: what recurs, and when.

mod ahead;
mod builds;
mod bursts;
mod calendar;
mod changes;
mod clocks;
mod crowd;
mod deaths;
mod declared;
mod explained;
mod failover;
mod idle;
mod jitter;
mod large;
mod many;
mod odd;
mod peers;
mod programs;
mod random;
mod replayed;
mod runs;
mod stops;
mod successive;
mod texts;
mod trouble;
mod zones;
