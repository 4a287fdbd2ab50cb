//! Real servers for tests: each in a folder of its own, each gone when its test is gone.
//!
//! A test or a bench takes them in by `#[path = "../servers/mod.rs"] mod servers;`. A server is
//! killed by its own id when it is dropped. Where nothing is dropped, because the program was
//! killed or the server lives in a `static`, its keeper (`keep.sh`) does it; it needs no signal and
//! no lock, only the end of a pipe.

#![allow(dead_code)] // each program that takes this in uses a part of it

mod address;
mod certificates;
mod cluster;
mod home;
mod postgres;
mod prometheus;
mod proxy;
mod redis;
mod sentinels;
mod shared;

#[allow(unused_imports)]
pub(crate) use self::{
    address::Address,
    cluster::Cluster,
    postgres::{PASSWORD, Postgres, PostgresOptions, schema},
    prometheus::{Prometheus, check_metrics, get, promtool},
    proxy::{Counts, Fault, Proxy},
    redis::{Aof, Redis, RedisOptions},
    sentinels::Sentinels,
    shared::{SharedPostgres, prefix, shared, shared_cluster, shared_postgres},
};
