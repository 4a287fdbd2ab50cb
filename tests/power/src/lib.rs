//! The power goes, and the disk fails: what the embedded store answered is there all the same, and
//! so are the records that a journal in a file has answered for.
//!
//! Below the store lies a disk of our own ([`lossy`]), made by FUSE, which knows what was synced.
//! A child process ([`child`]) works on it and says what it does and what it is answered. At a
//! request that the seed names the power goes: whatever was not synced is lost, or survives sector
//! by sector as a coin falls. Then the store is opened on what is left and compared with what was
//! said ([`story`], [`account`]).
//!
//! | variable | default | what |
//! |---|---|---|
//! | `DULY_POWER_CASES` | 24 | how many cases of one to three cuts and those nested in them |
//! | `DULY_POWER_FAULTS` | 40 | how many writes and syncs fail, each once and for good |
//! | `DULY_POWER_SEED` | random | the seed of the first case, and of the sample of faults |
//!
//! The seed of each case is printed, with the command that runs it again.

#![cfg(test)]

mod account;
mod act;
mod child;
mod controls;
mod cuts;
mod doubt;
mod full;
mod journal;
mod kit;
mod lossy;
mod story;
mod work;
