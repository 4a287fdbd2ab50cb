//! Real servers for tests: each in a folder of its own, and stopped with its test.
//!
//! A test or a bench includes them by `#[path = "../servers/mod.rs"] mod servers;`. A server is
//! killed by its own id when it is dropped. If nothing is dropped, because the program was killed
//! or the server is in a `static`, its keeper (`keep.sh`) kills it; the keeper needs no signal and
//! no lock, only the end of a pipe.

#![allow(dead_code)] // each program that takes this in uses a part of it

mod address;
pub(crate) mod certificates;
mod clock;
mod cluster;
mod home;
mod locale;
mod mariadb;
mod pooler;
mod postgres;
mod prometheus;
mod proxy;
mod redis;
mod sentinels;
mod shared;

#[allow(unused_imports)]
pub(crate) use self::{
    address::Address,
    clock::WallClock,
    cluster::Cluster,
    mariadb::MariaDb,
    pooler::Pooler,
    postgres::{PASSWORD, Postgres, PostgresOptions, schema},
    prometheus::{Prometheus, check_metrics, get, promtool},
    proxy::{Counts, Fault, Proxy},
    redis::{Aof, Redis, RedisOptions},
    sentinels::Sentinels,
    shared::{
        SharedMariaDb, SharedPostgres, newest_program, prefix, shared, shared_cluster,
        shared_mariadb, shared_newest, shared_postgres, shared_redis_8,
    },
};
