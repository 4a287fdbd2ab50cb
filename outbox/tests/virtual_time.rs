//! A relay beside a test bus, whose time is paused.

use std::time::Duration;

use duly::testing::{TestBus, outside};
use duly_outbox::PushIn;
use sqlx::postgres::PgPoolOptions;

use crate::databases::Outbox;
use crate::drivers::Driver;
use crate::world::{Seen, TestDatabase, builder, order, orders};

const HALF_HOUR: Duration = Duration::from_secs(1_800);
const MONTH: Duration = Duration::from_secs(30 * 86_400);
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn time_stands_still_while_a_relay_waits_for_its_database() {
    for outbox in outside(Outbox::all()).await {
        let seen = Seen::default();
        let bus = TestBus::start(builder(&seen)).await.unwrap();
        let (relay, queue) = (outbox.relay(&bus).await, orders(&bus));
        outside(outbox.push(&queue, 1..4, HALF_HOUR.into())).await;
        bus.advance(HALF_HOUR - Duration::from_millis(1)).await;
        assert!(seen.numbers().is_empty());
        bus.advance(Duration::from_millis(1)).await;
        assert_eq!(seen.numbers(), [1, 2, 3]);
        // Nothing waits, however long.
        bus.advance(MONTH).await;
        outside(outbox.push(&queue, 4..5, duly::time::When::Now)).await;
        bus.advance(SECOND).await;
        assert_eq!(seen.numbers(), [1, 2, 3, 4]);
        // Nobody in this process has pushed it.
        outside(outbox.push_plain(5)).await;
        relay.wake();
        bus.advance(SECOND).await;
        assert_eq!(seen.numbers(), [1, 2, 3, 4, 5]);
        assert!(!bus.outbox_backlog().unwrap().is_away);
        relay.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_driver_holds_the_time_of_a_test() {
    let database = outside(TestDatabase::new()).await;
    let pool = PgPoolOptions::new().connect_lazy(&database.url).unwrap();
    for (number, driver) in (1..).zip(Driver::ALL) {
        let seen = Seen::default();
        let bus = TestBus::start(builder(&seen)).await.unwrap();
        let relay = driver.relay(&bus, &database.url).await.unwrap();
        let queue = orders(&bus);
        outside(async {
            let mut tx = pool.begin().await.unwrap();
            let pushed = queue.push_in(&mut tx, order(number), HALF_HOUR);
            pushed.await.unwrap();
            tx.commit().await.unwrap();
        })
        .await;
        bus.advance(HALF_HOUR).await;
        assert_eq!(seen.numbers(), [number], "{driver:?}");
        relay.stop().await;
    }
}

/// However many have reached their age, and in whichever database.
#[tokio::test(start_paused = true)]
async fn ends_go_as_fast_as_they_come() {
    const ENDS: u64 = 35_000;
    for outbox in outside(Outbox::all()).await {
        let bus = TestBus::start(builder(&Seen::default())).await.unwrap();
        let numbers = match outbox {
            Outbox::Postgres(_) => format!("generate_series(1, {ENDS}) as numbers (n)"),
            Outbox::Sqlite(_) => format!(
                "(with recursive numbers (n) as (select 1 union all select n + 1 from numbers \
                 where n < {ENDS}) select n from numbers)"
            ),
            Outbox::Mysql(_) => format!("(select seq as n from seq_1_to_{ENDS}) as numbers"),
        };
        let at = match outbox {
            Outbox::Postgres(_) => "to_timestamp(1000000000.0)",
            Outbox::Sqlite(_) | Outbox::Mysql(_) => "1000000000000",
        };
        let old = format!("insert into duly_done select n, 1, '', {at} from {numbers}");
        outside(outbox.execute(&old)).await;
        let relay = outbox.relay(&bus).await;
        for _ in 0..10 {
            relay.wake(); // it is idle for as long as nothing wakes it
            bus.advance(SECOND).await;
        }
        let left = outside(outbox.number("select count(*) from duly_done")).await;
        assert_eq!(left, 0);
        relay.stop().await;
    }
}
