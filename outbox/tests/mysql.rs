//! The outbox in MySQL and MariaDB.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::prelude::*;
use duly::records::Outcome;
use duly_outbox::{FinishIn, PushEventIn, PushIn, Relay, RelayOptions};
use sqlx::{Connection, Executor, MySqlConnection};

use crate::servers::shared_mariadb;
use crate::world::{Order, Seen, TestMysql, bus, eventually, order, orders};

const WAITING: &str = "select count(*) from duly_outbox";
const REFUSED: &str = "select count(*) from duly_outbox_refused";

async fn open(url: &str) -> MySqlConnection {
    MySqlConnection::connect(url).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_in_mysql_is_handled_once() {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let queue = orders(&bus);
    let relays = [database.relay(&bus).await, database.relay(&bus).await];
    for round in 0..10_u64 {
        let mut tx = database.pool.begin().await.unwrap();
        let undone = queue.push_in(&mut tx, order(1_000 + round), When::Now);
        undone.await.unwrap();
        tx.rollback().await.unwrap();
        let mut tx = database.pool.begin().await.unwrap();
        let pushed = queue.push_in(&mut tx, order(round), When::Now);
        pushed.await.unwrap();
        queue
            .event(order(100 + round))
            .push_in(&mut tx)
            .await
            .unwrap();
        let none = queue.push_many_in(&mut tx, [] as [Order; 0], When::Now);
        assert!(none.await.unwrap().is_empty());
        // More than one statement takes, and than a page has.
        let many = (0..1_200).map(|place| order(10_000 + 2_000 * round + place));
        let ids = queue.push_many_in(&mut tx, many, When::Now).await.unwrap();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 1_200);
        let payload = format!("{{\"number\": {}}}", 200 + round);
        let call = sqlx::query("call duly_push('orders', ?, null, null)").bind(payload);
        call.execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    }
    // A connection outside of a transaction is one, too.
    let mut connection = open(&database.url).await;
    let alone = queue.push_in(&mut connection, order(500), When::Now);
    alone.await.unwrap();
    database
        .execute("call duly_push('no such name!', '1', null, null)")
        .await;
    seen.reach(12_031).await;
    database.until(REFUSED, 1).await;
    database.until(WAITING, 0).await;
    assert!(seen.counts().values().all(|count| *count == 1));
    let undone = |number: &u64| (1_000..1_010).contains(number);
    assert!(!seen.numbers().iter().any(undone));
    for relay in relays {
        relay.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_commits_late_in_mysql_is_not_passed_over_and_delays_nothing() {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let queue = orders(&bus);
    let relay = database.relay(&bus).await;
    let mut held = database.pool.begin().await.unwrap();
    queue.push_in(&mut held, order(0), When::Now).await.unwrap();
    // Its snapshot keeps what is deleted from being removed.
    held.execute("select count(*) from duly_done")
        .await
        .unwrap();
    // Nor is an end that is being committed waited for by what deletes old ones.
    let end = "insert into duly_done (event, attempt, lease) values ('orders/held', 1, '')";
    held.execute(end).await.unwrap();
    let old = "insert into duly_done (event, attempt, lease, at) values ('orders/old', 1, '', 0)";
    database.execute(old).await;
    for number in 1..=50 {
        database.push(&queue, number).await;
    }
    let mut tx = database.pool.begin().await.unwrap();
    let many = (1_000..3_500).map(order);
    queue.push_many_in(&mut tx, many, When::Now).await.unwrap();
    tx.commit().await.unwrap();
    seen.reach(2_550).await;
    database.until(WAITING, 0).await;
    let ends = "select count(*) from duly_done";
    database.until(ends, 0).await;
    assert!(!seen.numbers().contains(&0), "before its commit");
    held.commit().await.unwrap();
    seen.reach(2_551).await;
    assert!(seen.counts().values().all(|count| *count == 1));
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_names_what_mysql_lacks() {
    let database = TestMysql::empty().await;
    let bus = bus("memory:", &Seen::default()).await;
    let start = || Relay::sqlx_mysql(&bus, database.url.parse().unwrap(), RelayOptions::default());
    let error = start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    for name in [
        "duly_outbox,",
        "duly_outbox_server",
        "duly_done",
        "schema --database mysql",
    ] {
        assert!(error.to_string().contains(name), "{error}");
    }
    let mut tx = database.pool.begin().await.unwrap();
    let error = orders(&bus)
        .push_in(&mut tx, order(1), When::Now)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(
        error.to_string().contains("schema --database mysql"),
        "{error}"
    );
    drop(tx);
    for _ in 0..2 {
        database
            .execute(duly_outbox::schema(duly_outbox::Database::Mysql))
            .await;
    }
    start().await.unwrap().stop().await;
    database
        .execute("update duly_outbox_version set version = 0")
        .await;
    let error = start().await.unwrap_err().to_string();
    assert!(
        error.contains("have version 0, this program needs 1"),
        "{error}"
    );
    let gone = shared_mariadb()
        .url("root", &database.name)
        .replace("mariadb.sock", "no.sock");
    let gone = Relay::sqlx_mysql(&bus, gone.parse().unwrap(), RelayOptions::default()).await;
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::Unavailable);
}

/// Whatever a session of theirs is set to, programs mean the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_sql_in_mysql_depends_on_no_setting_of_a_session() {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let relay = database.relay(&bus).await;
    let mut connection = open(&database.url).await;
    let settings = [
        "set time_zone = '+05:30', sql_mode = ''",
        "set time_zone = '-11:00', sql_mode = 'ANSI,STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'",
        "set names latin1, collation_connection = 'latin1_general_ci', sql_safe_updates = 1",
        "set session transaction isolation level serializable",
    ];
    for setting in settings {
        connection.execute(setting).await.unwrap();
        let call = "call duly_push('mails', '\"Ada\"', 1800, '{\"key\": \"customer:7\"}')";
        connection.execute(call).await.unwrap();
    }
    // An event that is not ASCII, whole, and one at an instant.
    connection.execute("set names utf8mb4").await.unwrap();
    let many = "insert into duly_outbox (queue, payload, due, options) values \
                ('mails', '\"Zoë 🦉\"', null, '{\"key\": \"customer:8\"}'), \
                ('mails', '\"at\"', 4102444800000, '{\"key\": \"customer:9\"}')";
    connection.execute(many).await.unwrap();
    database.until(WAITING, 0).await;
    let mails = bus.queue_named::<String>("mails").unwrap();
    let of = async |key: &str| mails.events().key(key).page().await.unwrap().items;
    let events = of("customer:7").await;
    assert_eq!(events.len(), settings.len());
    for event in events {
        let wait = event.due.since(bus.store_time());
        let expected = Duration::from_secs(1_700)..=Duration::from_secs(1_800);
        assert!(expected.contains(&wait), "{wait:?}");
    }
    let event = of("customer:8").await.remove(0);
    let id = event.id;
    let envelope = mails.get(id).await.unwrap().unwrap().body.unwrap();
    let opened = bus
        .keys()
        .open(id, mails.name(), &envelope.payload)
        .unwrap();
    assert_eq!(
        serde_json::from_slice::<String>(&opened.value).unwrap(),
        "Zoë 🦉"
    );
    let event = of("customer:9").await.remove(0);
    assert_eq!(event.due.as_millis(), 4_102_444_800_000);
    relay.stop().await;
}

/// It was decades behind and ahead, also when another relay claimed a row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_clock_of_mysql_neither_loses_nor_doubles() {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let mut connection = open(&database.url).await;
    for (number, time) in [(1, 978_307_200), (2, 2_145_916_800)] {
        let sql = format!(
            "set timestamp = {time}; \
             call duly_push('orders', '{{\"number\": {number}}}', null, null); \
             insert into duly_outbox (queue, payload, holder, held_until) values \
             ('orders', '{{\"number\": 1{number}}}', 'other', unix_timestamp() * 1000 + 30000)"
        );
        let sql = sqlx::AssertSqlSafe(sql);
        connection.execute(sql).await.unwrap();
    }
    let relay = database.relay(&bus).await;
    seen.reach(4).await;
    database.until(WAITING, 0).await;
    assert_eq!(seen.numbers(), [1, 2, 11, 12]);
    assert!(seen.counts().values().all(|count| *count == 1));
    assert_eq!(database.number(REFUSED).await, 0);
    relay.stop().await;
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
    pool: duly::State<sqlx::MySqlPool>,
) -> Result<(), Failure> {
    let mut tx = pool.begin().await?;
    if cx.finish_in(&mut tx, &event).await?.is_again() {
        return Ok(());
    }
    let insert = sqlx::query("insert into effects values (?)").bind(event.payload);
    insert.execute(&mut *tx).await?;
    if event.attempt() == 1 {
        return Err(Failure::retry("before the commit"));
    }
    tx.commit().await?;
    Err(Failure::retry("after the commit"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_in_mysql_happens_once() {
    let database = TestMysql::new().await;
    database
        .execute("create table effects (number bigint) engine = InnoDB")
        .await;
    let builder = Bus::builder().only_registered().store_url("memory:");
    let builder = builder.register(effect {}).state(database.pool.clone());
    let bus = builder.start().await.unwrap();
    let queue = bus.queue::<effect>();
    let is_done = async |id| {
        let records = bus
            .records()
            .id(id)
            .outcome(Outcome::Acked)
            .page()
            .await
            .unwrap();
        !records.items.is_empty()
    };
    let id = queue.push(1, When::Now).await.unwrap().id();
    eventually("the event is done", async || is_done(id).await).await;
    assert_eq!(database.number("select count(*) from effects").await, 1);

    // As after a lost lease: the other attempt is still at work.
    let id = queue.new_id();
    let mut other = database.pool.begin().await.unwrap();
    let insert =
        sqlx::query("insert into duly_done (event, attempt, lease) values (?, 1, 'other')");
    insert
        .bind(format!("effects/{id}"))
        .execute(&mut *other)
        .await
        .unwrap();
    other
        .execute("insert into effects values (7)")
        .await
        .unwrap();
    queue.event(7).id(id).push().await.unwrap();
    let waits = "select count(*) from information_schema.processlist where db = database() \
                 and info like 'insert into duly_done%'";
    database.until(waits, 1).await;
    other.commit().await.unwrap();
    eventually("the event is done", async || is_done(id).await).await;
    assert_eq!(database.number("select count(*) from effects").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_in_mysql_is_known_for_its_time_and_then_deleted() {
    let database = TestMysql::new().await;
    let insert = "insert into duly_done (event, attempt, lease, at) values \
                  ('a', 1, '', unix_timestamp() * 1000 - 14400000), \
                  ('b', 1, '', unix_timestamp() * 1000 - 1800000)";
    database.execute(insert).await;
    let bus = bus("memory:", &Seen::default()).await;
    let mut options = RelayOptions::default();
    options.done_kept = Duration::from_secs(7_200);
    let relay = Relay::sqlx_mysql(&bus, database.url.parse().unwrap(), options)
        .await
        .unwrap();
    database.until("select count(*) from duly_done", 1).await;
    let left = "select count(*) from duly_done where event = 'b'";
    assert_eq!(database.number(left).await, 1);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_rights_in_mysql_are_enough() {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let suffix = fastrand::u32(..);
    let (writer, relay) = (format!("w{suffix}"), format!("r{suffix}"));
    for user in [&writer, &relay] {
        shared_mariadb().sql(&format!("create user {user}"));
    }
    let rights = include_str!("../../src/docs/transactions.md");
    let rights = rights
        .split("```sql")
        .find(|text| text.contains("grant insert on shop.duly_outbox"));
    let rights = rights.unwrap().split("```").next().unwrap();
    let rights = rights.replace(" shop.", &format!(" {}.", database.name));
    let rights = rights
        .replace(" to shop;", &format!(" to {writer};"))
        .replace(" to relay;", &format!(" to {relay};"));
    shared_mariadb().sql(&rights);
    let mut client = open(&shared_mariadb().url(&writer, &database.name)).await;
    let mut tx = client.begin().await.unwrap();
    let queue = orders(&bus);
    queue.push_in(&mut tx, order(1), When::Now).await.unwrap();
    tx.execute("call duly_push('orders', '{\"number\": 2}', null, null)")
        .await
        .unwrap();
    tx.execute("call duly_push('no such name!', '1', null, null)")
        .await
        .unwrap();
    tx.execute("insert into duly_done (event, attempt, lease) values ('a', 1, '')")
        .await
        .unwrap();
    tx.commit().await.unwrap();
    // As after a restore, which the relay notes in each row.
    database
        .execute("insert into duly_outbox_server values ('other', 'shop')")
        .await;
    let url = shared_mariadb().url(&relay, &database.name);
    let mut options = RelayOptions::default();
    options.done_kept = Duration::from_secs(7_200);
    database.execute("update duly_done set at = 0").await;
    let relay = Relay::sqlx_mysql(&bus, url.parse().unwrap(), options)
        .await
        .unwrap();
    seen.reach(2).await;
    database.until(REFUSED, 1).await;
    database.until(WAITING, 0).await;
    database.until("select count(*) from duly_done", 0).await;
    relay.stop().await;
    let forbidden = client
        .execute("select * from duly_outbox")
        .await
        .unwrap_err();
    assert!(forbidden.to_string().contains("denied"), "{forbidden}");
}
