//! Processes that are killed, servers that go away and disks that fail, and an account of every
//! event after it.

#[allow(dead_code)] // the tests of delivery need more of it
#[path = "delivery/faulty.rs"]
mod faulty;
mod nodes;
mod servers;

mod crash;
mod occurrences;
mod records;
mod redis_faults;
mod syscalls;
