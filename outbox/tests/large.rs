//! Rows that are near to the limits of MySQL and MariaDB.

use crate::databases::REFUSED;
use crate::world::{Seen, TestMysql, builder, bus, eventually, orders};

/// As many bytes a statement of the shared server may have.
const PACKET: usize = 16 << 20;

async fn insert(database: &TestMysql, payload: &str, due: Option<i64>, options: &str) {
    let sql = "insert into duly_outbox (queue, payload, due, options) values ('mails', ?, ?, ?)";
    let insert = sqlx::query(sql).bind(payload).bind(due).bind(options);
    insert.execute(&database.pool).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_refused_for_a_long_text_blocks_nothing() {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let long = "x".repeat(65_000);
    let numbers = vec!["1e15"; 13_000].join(",");
    let wrong = [
        format!("{{\"attempts\": \"{long}\"}}"),
        format!("{{\"{long}\": 1}}"),
        format!("{{\"attempts\": [{numbers}]}}"),
    ];
    for options in &wrong {
        insert(&database, "1", None, options).await;
    }
    let relay = database.relay(&bus).await;
    database.push(&orders(&bus), 1).await;
    seen.reach(1).await;
    database.until(REFUSED, 3).await;
    let short = "select count(*) from duly_outbox_refused where length(reason) < 500";
    assert_eq!(database.number(short).await, 3);
    relay.stop().await;
}

/// What it goes on as is no larger for the server, or it is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_payload_of_plain_sql_goes_on_and_blocks_nothing() {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let packet = database
        .number("select cast(@@max_allowed_packet as signed)")
        .await;
    assert_eq!(usize::try_from(packet).unwrap(), PACKET);
    let builder = builder(&seen).payload_bytes_max(2 * PACKET);
    let bus = builder.store_url("memory:").start().await.unwrap();
    let due = Some(4_102_444_800_000); // in the year 2100
    for bytes in [9 << 20, PACKET - 200] {
        let payload = format!("\"{}\"", "x".repeat(bytes));
        insert(&database, &payload, due, "{}").await;
    }
    let relay = database.relay(&bus).await;
    database.push(&orders(&bus), 1).await;
    seen.reach(1).await;
    let refused =
        "select count(*) from duly_outbox_refused where reason like '%max_allowed_packet%'";
    database.until(refused, 1).await;
    database.until("select count(*) from duly_outbox", 0).await;
    let is_pushed = async || bus.stats("mails").await.unwrap().scheduled == 1;
    eventually("the other one is pushed", is_pushed).await;
    assert_eq!(database.number(REFUSED).await, 1);
    relay.stop().await;
}
