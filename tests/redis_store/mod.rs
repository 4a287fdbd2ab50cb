//! Tests of the Redis store beyond the contract, against real servers.
//!
//! The contract is tested in `tests/store_contract`, faults under load in `tests/redis_faults`.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

mod aborted;
mod apart;
mod away;
mod busy;
mod busy_more;
mod busy_others;
mod busy_shapes;
mod bytes;
mod call;
mod called;
mod check;
mod clocks;
mod connections;
mod costs;
mod damage;
mod database;
mod durable;
mod evicting;
mod expiring;
mod failover;
mod faulty;
mod fetches;
mod format;
mod full;
mod functions;
mod healed;
mod holders;
mod idle;
pub(crate) mod kit;
mod large;
mod leftovers;
mod looks;
mod lost_tail;
mod meter;
mod midway;
mod newer;
mod noted;
mod odd_errors;
pub(crate) mod opened;
mod ordered;
mod outage;
mod outbox;
mod overwritten;
mod pages;
mod pass;
mod pull;
mod pushed_again;
mod rate;
mod reaped;
mod registry;
mod runtimes;
mod secret_replies;
mod size;
mod subscriber;
mod unended;
mod unrepeated;
mod wrong_type;
