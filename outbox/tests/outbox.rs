//! Tests of the outbox: real databases, real kills.
//!
//! `DULY_OUTBOX_CASES` and `DULY_OUTBOX_SEED` choose the random loads, and how many there are;
//! `DULY_OUTBOX_KILLS` those of a program in files.

#![allow(clippy::print_stdout)] // seeds that are not printed are of no use
#![allow(clippy::unwrap_used)] // what several tests share fails as they do

#[path = "../../tests/servers/mod.rs"]
mod servers;

#[path = "../../tests/delivery/faulty.rs"]
#[allow(dead_code)] // its other users need it
mod faulty;

mod aged;
mod at_rest;
mod carried;
mod clock;
mod crowded;
mod databases;
mod drivers;
mod due;
mod files;
mod finished;
mod given_up;
mod held;
mod kills;
mod lacking;
mod large;
mod load;
mod lost;
mod metrics;
mod mysql;
mod ordered;
mod partly;
mod plain;
mod pushed;
mod relay;
mod restored;
mod retried;
mod schema;
mod settings;
mod shop;
mod slow;
mod sqlite;
mod standby;
mod stopped;
mod truncated;
mod url;
mod virtual_time;
mod world;
