//! Relays beside each other, of a database that takes longer than a page is held at first.

use duly::prelude::*;
use duly_outbox::PushIn;
use futures_util::future::join_all;
use sqlx_0_8::Executor;

use crate::databases::Outbox;
use crate::drivers::Driver;
use crate::world::{Seen, TestDatabase, World, bus, order, orders};

/// Each would find that another has taken its page meanwhile, and none would pass it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_whose_pages_take_long_go_on_beside_each_other() {
    let cases = [
        ("new.reading is null", 3.1, 2),
        ("new.reading is null", 6.5, 3),
        ("true", 2.5, 2),
    ];
    join_all(cases.map(go_on)).await;
}

async fn go_on((step, seconds, relays): (&str, f64, usize)) {
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let url = database.url.clone();
    let outbox = Outbox::Postgres(database);
    let slow = format!(
        "create table slow (seconds float); \
         create function slow() returns trigger language plpgsql as $$ begin \
         perform pg_sleep(seconds) from slow; return new; end $$; \
         create trigger slow before insert on duly_outbox_step for each row when ({step}) \
         execute function slow()"
    );
    outbox.execute(&slow).await;
    let bus = bus("memory:", &seen).await;
    let queue = orders(&bus);
    let relays = Driver::ALL.into_iter().take(relays);
    let relays = join_all(relays.map(|driver| driver.relay(&bus, &url))).await;
    outbox.push(&queue, 0..1, When::Now).await;
    seen.reach(1).await;
    outbox.settled().await;
    let slow = format!("insert into slow values ({seconds})");
    outbox.execute(&slow).await;
    outbox.push(&queue, 1..2, When::Now).await;
    outbox.settled().await;
    outbox.execute("delete from slow").await;
    outbox.push(&queue, 2..3, When::Now).await;
    seen.reach(3).await;
    outbox.settled().await;
    assert!(seen.counts().values().all(|count| *count == 1));
    for relay in relays {
        relay.unwrap().stop().await;
    }
}

/// A claim that another relay has made first, of the rows that are to be read next.
const FASTER: &str = "create table faster (times integer); \
    create function faster() returns trigger language plpgsql as $$ begin \
        delete from faster; \
        if not found then return new; end if; \
        new.holder = 'other'; \
        new.until = clock_timestamp() + interval '100 ms'; \
        insert into duly_outbox_step values (new.*); \
        return null; \
    end $$; \
    create trigger faster before insert on duly_outbox_step for each row \
        when (new.reading is not null and new.holder <> 'other') execute function faster()";

/// Its reply has the rows as well, and the first of them begins with the number that was wanted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_another_relay_made_first_passes_no_row_of_the_same_number() {
    let world = World::new().await;
    let pool = &world.database.pool;
    pool.execute(FASTER).await.unwrap();
    let relay = world.relay().await;
    world
        .database
        .until("select count(*) from duly_outbox_step limit 1", 1)
        .await;
    let mut tx = pool.begin().await.unwrap();
    let pushed = world.orders.push_in(&mut tx, order(1), When::Now).await;
    pushed.unwrap();
    let numbered = "insert into duly_outbox_step \
                    select x - 1, (x - 1) / 10000 % 2, clock_timestamp(), cluster, done, reading, \
                        passed_xid, passed_n, repeated, '', 'epoch' \
                    from duly_outbox_step, (select pg_current_xact_id()::text::bigint as x) as own \
                    order by n desc limit 1";
    tx.execute(numbered).await.unwrap();
    tx.execute("insert into faster values (1)").await.unwrap();
    tx.commit().await.unwrap();
    world.seen.reach(1).await;
    let lost = "select count(*) from duly_outbox o, duly_outbox_step s \
                where s.holder = 'other' and s.n = o.xid::text::bigint";
    assert_eq!(world.database.number(lost).await, 1);
    assert_eq!(world.seen.counts()[&1], 1);
    relay.stop().await;
}
