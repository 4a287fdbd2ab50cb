//! A database whose clock is wrong, and steps while a relay works.

use duly::Bus;
use duly_outbox::{Relay, RelayOptions};
use futures_util::future::join_all;
use sqlx_0_8::{Executor, PgPool};

use crate::databases::Outbox;
use crate::world::{Seen, TestDatabase, bus, eventually, orders, push_to};

/// A database that tells the time as it is, and as much more as its table `shift` says.
pub(crate) async fn shifted() -> TestDatabase {
    let mut database = TestDatabase::empty().await;
    let shift = "create table shift as select interval '0' as by; \
                 create function clock_timestamp() returns timestamptz language sql volatile as \
                 'select pg_catalog.clock_timestamp() + by from public.shift'; \
                 create function now() returns timestamptz language sql stable as \
                 'select pg_catalog.now() + by from public.shift'";
    database.pool.execute(shift).await.unwrap();
    // Otherwise the functions of the server come first.
    let order = "do $$ begin execute format('alter database %I set search_path = public, \
                 pg_catalog', current_database()); end $$";
    database.pool.execute(order).await.unwrap();
    database.pool = PgPool::connect(&database.url).await.unwrap();
    database.with_tables().await
}

async fn relay(bus: &Bus, database: &TestDatabase) -> Relay {
    let pool = database.pool.clone();
    Relay::sqlx_0_8(bus, pool, RelayOptions::default())
        .await
        .unwrap()
}

/// It goes decades back, and forth, once the relay has claimed rows, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_clock_of_postgresql_neither_loses_nor_doubles() {
    let (database, seen) = (shifted().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let queue = orders(&bus);
    let years = "select extract(year from clock_timestamp())::bigint";
    let year = database.number(years).await;
    let relay = relay(&bus, &database).await;
    for (number, shift) in [(1, 0), (2, -25), (3, 12), (4, -25), (5, 0)] {
        let step = format!("update shift set by = interval '{shift} years'");
        database.pool.execute(&*step).await.unwrap();
        assert_eq!(database.number(years).await, year + shift);
        // Of plain SQL, whose id has the time of the database, and of a program.
        let plain = format!("select duly_push('orders', '{{\"number\": {number}}}')");
        database.pool.execute(&*plain).await.unwrap();
        push_to(&database.pool, &queue, 10 + number).await;
        seen.reach(2 * usize::try_from(number).unwrap()).await;
    }
    // Another relay claimed rows, for a quarter of a century as it turns out.
    let claimed = "update shift set by = interval '25 years'; \
                   update duly_outbox_step set holder = 'other', \
                   until = clock_timestamp() + interval '3 s' \
                   where n = (select max(n) from duly_outbox_step); \
                   update shift set by = interval '0'";
    database.pool.execute(claimed).await.unwrap();
    push_to(&database.pool, &queue, 20).await;
    seen.reach(11).await;
    relay.stop().await;
    assert_eq!(seen.numbers(), [1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 20]);
    assert!(seen.counts().values().all(|count| *count == 1));
    let refused = "select count(*) from duly_outbox_refused";
    assert_eq!(database.number(refused).await, 0);
}

/// It steps while claims are under way, and each of two relays takes what the other seems to have left.
/// No store takes an id from years ahead: of such an event that both have taken, neither can know whether
/// the other has pushed it, so it is put aside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_relays_under_a_clock_that_steps_back_and_forth_neither_lose_nor_double() {
    const PUSHES: u64 = 60;
    let (database, seen) = (shifted().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let queue = orders(&bus);
    let relays = [relay(&bus, &database).await, relay(&bus, &database).await];
    let shifts = [
        "0",
        "-1 hour",
        "4 seconds",
        "-2 seconds",
        "12 years",
        "-25 years",
    ];
    for (number, shift) in (0..PUSHES).zip(shifts.into_iter().cycle()) {
        let step = format!("update shift set by = interval '{shift}'");
        database.pool.execute(&*step).await.unwrap();
        let plain = format!("select duly_push('orders', '{{\"number\": {number}}}')");
        database.pool.execute(&*plain).await.unwrap();
        push_to(&database.pool, &queue, 100 + number).await;
    }
    let aside = "select count(*) from duly_outbox_refused where reason like '%may have been%'";
    let is_all = async || {
        let handled = seen.numbers().len() as i64;
        handled + database.number(aside).await == 2 * PUSHES as i64
    };
    eventually("each is handled or put aside", is_all).await;
    for relay in relays {
        relay.stop().await;
    }
    assert!(seen.counts().values().all(|count| *count == 1));
    let of_years_ahead = database.number(aside).await;
    assert!(of_years_ahead <= PUSHES as i64 / shifts.len() as i64);
    let left = "select count(*) from duly_outbox_deferred";
    assert_eq!(database.number(left).await, 0);
}

/// As long as an end is kept, an effect happens once: so they do not go all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_ahead_does_not_delete_the_ends_of_the_last_weeks() {
    let (database, seen) = (shifted().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let ends = "insert into duly_done select 'orders/' || days, 1, '', \
                pg_catalog.now() - days * interval '1 day' from unnest(array[40, 20, 1, 0]) as days; \
                update shift set by = interval '31 days'";
    database.pool.execute(ends).await.unwrap();
    let relay = relay(&bus, &database).await;
    let oldest = "select count(*) from duly_done where event = 'orders/40'";
    database.until(oldest, 0).await;
    assert_eq!(database.number("select count(*) from duly_done").await, 3);
    relay.stop().await;
}

/// However often relays start meanwhile, as a process does that crashes in a loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_starts_delete_no_more_ends_than_one_does() {
    let outboxes = Outbox::all().await;
    join_all(outboxes.iter().map(starts_delete_no_more)).await;
}

async fn starts_delete_no_more(outbox: &Outbox) {
    const DAY: u64 = 86_400_000;
    let bus = bus("memory:", &Seen::default()).await;
    // As after a jump of more than a year: those of the last thirty days.
    let now = bus.store_time().as_millis();
    let ended = async |name: u64, at: u64| {
        let at = match outbox {
            Outbox::Postgres(_) => format!("to_timestamp({}.0)", at / 1_000),
            Outbox::Sqlite(_) | Outbox::Mysql(_) => at.to_string(),
        };
        let sql = format!("insert into duly_done values ('orders/{name}', 1, '', {at})");
        outbox.execute(&sql).await;
    };
    for age in 400..430 {
        ended(age, now - age * DAY).await;
    }
    let all = "select count(*) from duly_done";
    let mut left = Vec::new();
    for round in 1..4 {
        let (name, between) = (1_000 + round, now - 427 * DAY - DAY / 2);
        if round > 1 {
            ended(name, between).await; // it shows when there was a sweep
        }
        let relay = outbox.relay(&bus).await;
        let gone = match round {
            1 => "event = 'orders/429'".to_owned(),
            _ => format!("event = 'orders/{name}'"),
        };
        outbox
            .until(&format!("select count(*) from duly_done where {gone}"), 0)
            .await;
        relay.stop().await;
        left.push(outbox.number(all).await);
    }
    assert_eq!(left, [27, 27, 27], "a tenth of thirty days");
}
