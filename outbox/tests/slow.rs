//! Relays beside each other, of a database that takes longer than a page is held at first.

use duly::prelude::*;
use futures_util::future::join_all;

use crate::databases::Outbox;
use crate::drivers::Driver;
use crate::world::{Seen, TestDatabase, bus, orders};

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
