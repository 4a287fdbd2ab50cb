//! Tests of the server: each starts one in this process, on ports and a store of its own.

#![recursion_limit = "256"] // for the layout of a test's future: each call in it is a level
#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

#[path = "../../tests/servers/mod.rs"]
mod servers;

mod audit;
mod bounds;
mod commands;
mod dashboard;
mod deploy;
mod examples;
mod faults;
mod full;
mod hostile;
mod hung_up;
mod kills;
mod kubernetes;
mod lasting;
mod lmstfy;
mod outbox;
mod places;
mod process;
mod ready;
mod rights;
mod settled_clock;
mod shared_audit;
mod shared_redis;
mod strain;
mod tenants;
mod test_clock;
mod v1;
mod variables;
mod webhooks;
mod whole;
mod world;
