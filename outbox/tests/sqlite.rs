//! The outbox in a file of SQLite.

use std::path::PathBuf;

use duly::prelude::*;
use duly_outbox::{Database, FinishIn, PushEventIn, PushIn, Relay, RelayOptions, at_once, schema};
use rusqlite::Connection;

use crate::world::{Seen, bus, eventually, order, orders};

/// A file with the tables, in WAL mode.
fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let connection = Connection::open(&file).unwrap();
    connection
        .pragma_update(None, "journal_mode", "wal")
        .unwrap();
    for _ in 0..2 {
        connection.execute_batch(schema(Database::Sqlite)).unwrap();
    }
    (folder, file)
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_in_a_file_is_handled_once() {
    let (_folder, file) = file();
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let queue = orders(&bus);
    let relay = || Relay::rusqlite(&bus, &file, RelayOptions::default());
    let relays = [relay().await.unwrap(), relay().await.unwrap()];
    let mut connection = Connection::open(&file).unwrap();
    connection
        .busy_timeout(std::time::Duration::from_secs(30))
        .unwrap();
    for round in 0..10_u64 {
        let mut tx = connection.transaction().unwrap();
        at_once(queue.push_in(&mut tx, order(1_000 + round), When::Now)).unwrap();
        tx.rollback().unwrap();
        let mut tx = connection.transaction().unwrap();
        at_once(queue.push_in(&mut tx, order(round), When::Now)).unwrap();
        at_once(queue.event(order(100 + round)).push_in(&mut tx)).unwrap();
        let many = (0..150).map(|place| order(10_000 + 1_000 * round + place));
        at_once(queue.push_many_in(&mut tx, many, When::Now)).unwrap();
        let payload = format!("{{\"number\": {}}}", 200 + round);
        tx.execute(
            "insert into duly_outbox (queue, payload) values ('orders', ?1)",
            [payload],
        )
        .unwrap();
        tx.commit().unwrap();
    }
    connection
        .execute(
            "insert into duly_outbox (queue, payload) values ('no such name!', '1')",
            [],
        )
        .unwrap();
    seen.reach(1_530).await;
    let is_refused = async || number(&connection, "select count(*) from duly_outbox_refused") == 1;
    eventually("the wrong one is put aside", is_refused).await;
    let is_empty = async || number(&connection, "select count(*) from duly_outbox") == 0;
    eventually("the outbox is empty", is_empty).await;
    assert!(seen.counts().values().all(|count| *count == 1));
    assert!(
        seen.numbers()
            .iter()
            .all(|number| !(1_000..1_010).contains(number))
    );
    for relay in relays {
        relay.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_is_not_utf_8_is_put_aside_and_blocks_nothing() {
    let (_folder, file) = file();
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let mut connection = Connection::open(&file).unwrap();
    let columns = ["queue", "payload", "id", "options"];
    for column in columns {
        let (others, values) = match column {
            "queue" => ("payload", "'1'"),
            "payload" => ("queue", "'orders'"),
            _ => ("queue, payload", "'orders', '1'"),
        };
        let sql = format!(
            "insert into duly_outbox ({column}, {others}) values (cast(x'22ff22' as text), {values})"
        );
        connection.execute(&sql, []).unwrap();
    }
    let queue = orders(&bus);
    at_once(queue.push_in(&mut connection, order(1), When::Now)).unwrap();
    let relay = Relay::rusqlite(&bus, &file, RelayOptions::default())
        .await
        .unwrap();
    seen.reach(1).await;
    for column in columns {
        let sql = format!(
            "select count(*) from duly_outbox_refused where reason like 'the {column} %utf-8%'"
        );
        let is_refused = async || number(&connection, &sql) == 1;
        eventually(column, is_refused).await;
    }
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_names_what_a_file_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let bus = bus("memory:", &Seen::default()).await;
    let start = || Relay::rusqlite(&bus, &file, RelayOptions::default());
    let error = start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!file.exists());
    drop(
        Connection::open(&file)
            .unwrap()
            .execute_batch("create table a (b)"),
    );
    let error = start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(
        error
            .to_string()
            .contains("no duly_outbox_version, duly_outbox, duly_outbox_step"),
        "{error}"
    );
    let mut connection = Connection::open(&file).unwrap();
    let error = at_once(orders(&bus).push_in(&mut connection, order(1), When::Now)).unwrap_err();
    assert!(error.to_string().contains("duly outbox schema"), "{error}");
}

#[delay_event(
    queue = "effects",
    register = false,
    attempts = 8,
    backoff = "fixed(1ms)"
)]
async fn effect(
    event: Event<i64>,
    cx: &Context,
    file: duly::State<PathBuf>,
) -> Result<(), Failure> {
    let mut connection = Connection::open(&*file)?;
    let mut tx = connection.transaction()?;
    if at_once(cx.finish_in(&mut tx, &event))?.is_again() {
        return Ok(());
    }
    tx.execute("insert into effects values (?1)", [event.payload])?;
    if event.attempt() == 1 {
        return Err(Failure::retry("before the commit"));
    }
    tx.commit()?;
    Err(Failure::retry("after the commit"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_in_a_file_happens_once() {
    let (_folder, file) = file();
    let connection = Connection::open(&file).unwrap();
    connection
        .execute_batch("create table effects (number integer)")
        .unwrap();
    let builder = Bus::builder().only_registered().store_url("memory:");
    let bus = builder
        .register(effect {})
        .state(file.clone())
        .start()
        .await
        .unwrap();
    let id = bus.queue::<effect>().push(1, When::Now).await.unwrap().id();
    let done = async || {
        let records = bus
            .records()
            .id(id)
            .outcome(Outcome::Acked)
            .page()
            .await
            .unwrap();
        !records.items.is_empty()
    };
    eventually("the event is done", done).await;
    assert_eq!(number(&connection, "select count(*) from effects"), 1);
}

/// Rows of two tables get there, each with numbers of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refused_row_has_a_number_of_its_own() {
    let (_folder, file) = file();
    let bus = bus("memory:", &Seen::default()).await;
    let connection = Connection::open(&file).unwrap();
    let rows = "insert into duly_outbox_deferred (at, repeated, event, bucket) \
                values (7, false, x'01', 'orders/0'), (8, false, x'02', 'orders/0'); \
                insert into duly_outbox (at, queue, payload) values (9, 'no such name!', '1')";
    connection.execute_batch(rows).unwrap();
    let relay = Relay::rusqlite(&bus, &file, RelayOptions::default());
    let relay = relay.await.unwrap();
    let refused = "select count(*) from duly_outbox_refused";
    eventually("all are refused", async || {
        number(&connection, refused) == 3
    })
    .await;
    let different = "select count(distinct n) from duly_outbox_refused";
    assert_eq!(number(&connection, different), 3);
    assert_eq!(number(&connection, "select count(*) from duly_outbox"), 0);
    relay.stop().await;
}
