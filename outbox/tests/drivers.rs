//! Each driver of PostgreSQL, by the same tests.

use std::collections::BTreeSet;

use duly::prelude::*;
use duly_outbox::{PushEventIn, PushIn, Relay, RelayOptions};
use tokio_postgres::NoTls;

use crate::servers::{Postgres, PostgresOptions};
use crate::world::{Order, Seen, TestDatabase, World, bus, eventually, order, orders};

/// What a program speaks to PostgreSQL by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Driver {
    Sqlx08,
    Sqlx09,
    TokioPostgres,
}

impl Driver {
    pub(crate) const ALL: [Self; 3] = [Self::Sqlx08, Self::Sqlx09, Self::TokioPostgres];

    /// A relay by this driver.
    pub(crate) async fn relay(self, bus: &Bus, url: &str) -> duly::Result<Relay> {
        let options = RelayOptions::default();
        match self {
            Self::Sqlx08 => {
                let pool = sqlx_0_8::PgPool::connect_lazy(url).unwrap();
                Relay::sqlx_0_8(bus, pool, options).await
            }
            Self::Sqlx09 => {
                let pool = sqlx::PgPool::connect_lazy(url).unwrap();
                Relay::sqlx(bus, pool, options).await
            }
            Self::TokioPostgres => {
                Relay::tokio_postgres(bus, url.parse().unwrap(), NoTls, options).await
            }
        }
    }
}

/// Begins a transaction by a driver on a connection of its own, and runs a block in it.
macro_rules! in_transaction {
    ($driver:expr, $url:expr, $tx:ident, $block:block) => {
        match $driver {
            $crate::drivers::Driver::Sqlx08 => {
                use sqlx_0_8::Connection as _;
                let mut connection = sqlx_0_8::PgConnection::connect($url).await.unwrap();
                let mut $tx = connection.begin().await.unwrap();
                $block
            }
            $crate::drivers::Driver::Sqlx09 => {
                use sqlx::Connection as _;
                let mut connection = sqlx::PgConnection::connect($url).await.unwrap();
                let mut $tx = connection.begin().await.unwrap();
                $block
            }
            $crate::drivers::Driver::TokioPostgres => {
                let mut connection = $crate::world::client($url).await;
                let mut $tx = connection.transaction().await.unwrap();
                $block
            }
        }
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_driver_pushes_if_and_only_if_it_commits() {
    for driver in Driver::ALL {
        let world = World::new().await;
        let (queue, url) = (&world.orders, world.database.url.as_str());
        let relay = driver.relay(&world.bus, url).await.unwrap();
        in_transaction!(driver, url, tx, {
            queue.push_in(&mut tx, order(1), When::Now).await.unwrap();
            let many = (2_000..2_010).map(order);
            queue.push_many_in(&mut tx, many, When::Now).await.unwrap();
            tx.rollback().await.unwrap();
        });
        in_transaction!(driver, url, tx, {
            queue.push_in(&mut tx, order(2), When::Now).await.unwrap();
            queue.event(order(3)).push_in(&mut tx).await.unwrap();
            let none = queue.push_many_in(&mut tx, [] as [Order; 0], When::Now);
            assert!(none.await.unwrap().is_empty());
            let one = queue.push_many_in(&mut tx, [order(4)], When::Now);
            assert_eq!(one.await.unwrap().len(), 1);
            // More than one statement takes.
            let many = (10_000..12_345).map(order);
            let ids = queue.push_many_in(&mut tx, many, When::Now).await.unwrap();
            let different: BTreeSet<_> = ids.iter().collect();
            assert_eq!(different.len(), 2_345);
            assert_eq!(world.seen.numbers(), [0; 0], "before the commit");
            tx.commit().await.unwrap();
        });
        world.seen.reach(2_348).await;
        let expected: Vec<u64> = (2..=4).chain(10_000..12_345).collect();
        assert_eq!(world.seen.numbers(), expected, "{driver:?}");
        let counts = world.seen.counts();
        assert!(counts.values().all(|count| *count == 1), "{driver:?}");
        relay.stop().await;
    }
}

/// The relays of a fleet need not have one driver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_commits_late_by_any_driver_is_pushed_by_any_other() {
    for late in Driver::ALL {
        let world = World::new().await;
        let (queue, url) = (&world.orders, world.database.url.as_str());
        let mut relays = Vec::new();
        for driver in Driver::ALL {
            relays.push(driver.relay(&world.bus, url).await.unwrap());
        }
        in_transaction!(late, url, held, {
            queue.push_in(&mut held, order(0), When::Now).await.unwrap();
            for (number, driver) in (1..).zip(Driver::ALL) {
                in_transaction!(driver, url, tx, {
                    let pushed = queue.push_in(&mut tx, order(number), When::Now);
                    pushed.await.unwrap();
                    tx.commit().await.unwrap();
                });
            }
            world.seen.reach(3).await;
            assert_eq!(world.seen.numbers(), [1, 2, 3], "{late:?}");
            held.commit().await.unwrap();
        });
        world.seen.reach(4).await;
        assert!(world.seen.counts().values().all(|count| *count == 1));
        for relay in relays {
            relay.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_driver_says_what_is_wrong() {
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let (database, queue) = (TestDatabase::empty().await, orders(&bus));
    for driver in Driver::ALL {
        let error = driver.relay(&bus, &database.url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{driver:?}: {error}");
        assert!(error.to_string().contains(" duly_outbox,"), "{error}");
        in_transaction!(driver, &database.url, tx, {
            let pushed = queue.push_in(&mut tx, order(1), When::Now);
            let error = pushed.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{driver:?}: {error}");
            assert!(error.to_string().contains("duly outbox schema"), "{error}");
            tx.rollback().await.unwrap();
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_of_each_driver_goes_on_after_a_stop_of_the_database() {
    let mut server = Postgres::start(PostgresOptions::default());
    server.sql(duly_outbox::schema(duly_outbox::Database::Postgres));
    for (number, driver) in (0..).zip(Driver::ALL) {
        let seen = Seen::default();
        let bus = bus("memory:", &seen).await;
        let relay = driver.relay(&bus, &server.url()).await.unwrap();
        server.restart();
        let mut client = crate::world::client(&server.url()).await;
        let mut tx = client.transaction().await.unwrap();
        let queue = orders(&bus);
        let pushed = queue.push_in(&mut tx, order(number), When::Now);
        pushed.await.unwrap();
        tx.commit().await.unwrap();
        seen.reach(1).await;
        relay.stop().await;
    }
}

/// Pushes an order in a transaction of its own.
pub(crate) async fn push_by(
    client: &mut tokio_postgres::Client,
    queue: &Queue<Order>,
    number: u64,
) {
    let mut tx = client.transaction().await.unwrap();
    let pushed = queue.push_in(&mut tx, order(number), When::Now);
    pushed.await.unwrap();
    tx.commit().await.unwrap();
}

/// A failover may leave a relay, or lead it back, to a server that is only read from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_of_each_driver_leaves_a_server_that_is_read_only() {
    let others = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                  where datname = current_database() and pid <> pg_backend_pid()";
    for driver in Driver::ALL.map(Some).into_iter().chain([None]) {
        for is_first in [true, false] {
            let (database, seen) = (TestDatabase::new().await, Seen::default());
            let bus = bus("memory:", &seen).await;
            // It was opened before, and may write.
            let mut own = database.client().await;
            let read_only = |value: &str| {
                format!(
                    "do $$ begin execute format('alter database %I set \
                     default_transaction_read_only = {value}', current_database()); end $$"
                )
            };
            if is_first {
                own.batch_execute(&read_only("on")).await.unwrap();
            }
            let relay = match driver {
                Some(driver) => driver.relay(&bus, &database.url).await,
                None => Relay::connect(&bus, &database.url, RelayOptions::default()).await,
            };
            let relay = relay.unwrap();
            if !is_first {
                push_by(&mut own, &orders(&bus), 1).await;
                seen.reach(1).await;
                own.batch_execute(&read_only("on")).await.unwrap();
                own.batch_execute(others).await.unwrap();
                push_by(&mut own, &orders(&bus), 2).await;
            }
            let is_away = async || bus.outbox_backlog().is_some_and(|it| it.is_away);
            eventually(&format!("{driver:?} {is_first}: is away"), is_away).await;
            own.batch_execute(&read_only("off")).await.unwrap();
            push_by(&mut own, &orders(&bus), 3).await;
            let all = if is_first { 1 } else { 3 };
            seen.reach(all).await;
            relay.stop().await;
        }
    }
}
