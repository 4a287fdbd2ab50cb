//! A relay of the database at a URL.

use duly::prelude::*;
use duly_outbox::{Database, PushEventIn, PushIn, Relay, RelayOptions, schema};
use rusqlite::Connection;

use crate::servers::{Postgres, PostgresOptions};
use crate::world::{Seen, TestDatabase, TestMysql, bus, client, order, orders};

async fn connect(bus: &Bus, url: &str) -> duly::Result<Relay> {
    Relay::connect(bus, url, RelayOptions::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_database_is_relayed_by_its_url() {
    let (postgres, mysql) = (TestDatabase::new().await, TestMysql::new().await);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let mut file = Connection::open(&path).unwrap();
    file.pragma_update(None, "journal_mode", "wal").unwrap();
    file.execute_batch(schema(Database::Sqlite)).unwrap();
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let urls = [
        postgres.url.clone(),
        mysql.url.clone(),
        format!("sqlite:{}", path.display()),
    ];
    let mut relays = Vec::new();
    for url in &urls {
        relays.push(connect(&bus, url).await.unwrap());
    }
    let queue = orders(&bus);
    let mut tx = postgres.pool.begin().await.unwrap();
    queue.event(order(1)).push_in(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = mysql.pool.begin().await.unwrap();
    queue.event(order(2)).push_in(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = file.transaction().unwrap();
    queue.push_in(&mut tx, order(3), When::Now).await.unwrap();
    tx.commit().unwrap();
    seen.reach(3).await;
    assert!(seen.counts().values().all(|count| *count == 1));
    for relay in relays {
        relay.stop().await;
    }
}

/// As it stands in `DATABASE_URL` for a pool of sqlx and for other tools.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_sqlite_is_relayed_by_the_url_of_a_pool() {
    let folder = tempfile::tempdir().unwrap();
    for (name, in_url, number) in [
        ("a.db", "a.db?mode=rwc", 1),
        ("b.db", "b.db?mode=rw", 2),
        (
            "the shop & 100%?.db",
            "the%20shop%20%26%20100%25%3F.db?mode=rwc",
            3,
        ),
        ("ü.db", "%C3%BC.db?", 4),
    ] {
        let mut file = Connection::open(folder.path().join(name)).unwrap();
        file.pragma_update(None, "journal_mode", "wal").unwrap();
        file.execute_batch(schema(Database::Sqlite)).unwrap();
        for begin in ["sqlite:", "sqlite://"] {
            let seen = Seen::default();
            let bus = bus("memory:", &seen).await;
            let url = format!("{begin}{}/{in_url}", folder.path().display());
            let relay = connect(&bus, &url).await.unwrap();
            let mut tx = file.transaction().unwrap();
            let queue = orders(&bus);
            queue
                .push_in(&mut tx, order(number), When::Now)
                .await
                .unwrap();
            tx.commit().unwrap();
            seen.reach(1).await;
            relay.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_comes_later_is_relayed_from_then_on() {
    let mut server = Postgres::start(PostgresOptions::default());
    client(&server.url())
        .await
        .batch_execute(schema(Database::Postgres))
        .await
        .unwrap();
    server.kill();
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let relay = connect(&bus, &server.url()).await.unwrap();
    server.restart();
    let mut client = client(&server.url()).await;
    let mut tx = client.transaction().await.unwrap();
    orders(&bus)
        .push_in(&mut tx, order(1), When::Now)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    seen.reach(1).await;
    relay.stop().await;
}

/// The first may be a replica, or was the primary before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_servers_of_a_url_the_one_that_writes_is_relayed() {
    let [first, second] = [(); 2].map(|()| Postgres::start(PostgresOptions::default()));
    for server in [&first, &second] {
        server.sql(schema(Database::Postgres));
    }
    let [one, other] = [&first, &second].map(|server| format!("127.0.0.1:{}", server.port()));
    let both = first.url().replace(&one, &format!("{one},{other}"));
    for (number, (read_only, writer)) in (0..).zip([(&first, &second), (&second, &first)]) {
        read_only.sql("alter database postgres set default_transaction_read_only = on");
        let seen = Seen::default();
        let bus = bus("memory:", &seen).await;
        let relay = connect(&bus, &both).await.unwrap();
        let mut client = client(&writer.url()).await;
        let mut tx = client.transaction().await.unwrap();
        let queue = orders(&bus);
        let pushed = queue.push_in(&mut tx, order(number), When::Now);
        pushed.await.unwrap();
        tx.commit().await.unwrap();
        seen.reach(1).await;
        relay.stop().await;
        let again = "begin read write; alter database postgres reset all; commit";
        read_only.sql(again);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_cannot_be_right_is_refused_and_shows_no_password() {
    let bus = bus("memory:", &Seen::default()).await;
    let empty = TestDatabase::empty().await;
    let sign = if empty.url.contains('?') { '&' } else { '?' };
    let of_journal = format!("{}{sign}schema=mine", empty.url);
    for (url, said) in [
        ("", "begins with postgres://"),
        ("orders", "begins with postgres://"),
        ("redis://secret@localhost", "begins with postgres://"),
        (
            "postgres://user:secret@host:port/db",
            "postgres://user:password",
        ),
        ("mysql://user:secret@host:port/db", "mysql://user:password"),
        (&of_journal, "search_path"),
        (&empty.url, "duly outbox schema --database postgres"),
        ("sqlite:shop.db?mode=ro", "`mode=rw`"),
        ("sqlite:shop.db?mode=memory", "`mode=rw`"),
        ("sqlite:shop.db?mode=rw&cache=secret", "`cache`"),
        ("sqlite:shop%2.db", "percent-encoded"),
        ("sqlite:%FF.db", "percent-encoded"),
        ("sqlite::memory:", "names none"),
        ("sqlite://?mode=rwc", "names none"),
    ] {
        let error = connect(&bus, url).await.expect_err(url);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
        assert!(error.to_string().contains(said), "{url}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}
