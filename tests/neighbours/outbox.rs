//! The outbox beside drivers of databases.

use super::program;

/// The outbox of a program whose SQLite is that of sqlx: it pushes by sqlx, and relays by rusqlite.
const OUTBOX: &str = "let options = sqlx::sqlite::SqliteConnectOptions::new()\
    .filename(\"shop.db\").create_if_missing(true)\
    .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal); \
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap(); \
    let schema = duly_outbox::schema(duly_outbox::Database::Sqlite); \
    sqlx::raw_sql(schema).execute(&pool).await.unwrap(); \
    let options = duly_outbox::RelayOptions::default(); \
    let relay = duly_outbox::Relay::rusqlite(&bus, \"shop.db\", options).await.unwrap(); \
    let queue = bus.queue_named::<u64>(\"orders\").unwrap(); \
    let hour = std::time::Duration::from_secs(3_600); \
    for is_kept in [false, true] { \
        let mut tx = pool.begin().await.unwrap(); \
        duly_outbox::PushIn::push_in(&queue, &mut tx, 7, hour).await.unwrap(); \
        duly_outbox::PushIn::push_many_in(&queue, &mut tx, 0..1_500, hour).await.unwrap(); \
        if is_kept { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() } \
    } \
    while bus.stats(\"orders\").await.unwrap().scheduled < 1_501 { tokio::task::yield_now().await } \
    assert_eq!(bus.stats(\"orders\").await.unwrap().scheduled, 1_501); \
    relay.stop().await;";

#[test]
fn the_outbox_beside_sqlx_0_9_with_sqlite() {
    program(
        "duly-outbox = { path = \"{root}/outbox\", features = [\"rusqlite\", \"sqlx\"] }\n\
         sqlx = { version = \"0.9\", features = [\"runtime-tokio\", \"postgres\", \"sqlite\"] }",
    )
    .that(OUTBOX)
    .check();
}

#[test]
fn the_outbox_beside_sqlx_0_8_with_sqlite() {
    program(
        "duly-outbox = { path = \"{root}/outbox\", features = [\"rusqlite\", \"sqlx-0-8\"] }\n\
         sqlx = { version = \"0.8\", features = [\"runtime-tokio\", \"postgres\", \"sqlite\"] }",
    )
    .that(OUTBOX)
    .check();
}

/// It pushes by sqlx 0.8, and relays by sqlx 0.9: there is no database here, so it is only compiled.
#[test]
fn the_outbox_beside_sqlx_0_8_with_mysql() {
    let main = "async fn push(pool: &sqlx::MySqlPool, queue: &duly::Queue<u64>) { \
            let mut tx = pool.begin().await.unwrap(); \
            let now = duly::time::When::Now; \
            duly_outbox::PushIn::push_in(queue, &mut tx, 7, now).await.unwrap(); \
            tx.commit().await.unwrap(); \
        } \
        let pool = sqlx::MySqlPool::connect_lazy(\"mysql://localhost/shop\").unwrap(); \
        let queue = bus.queue_named::<u64>(\"orders\").unwrap(); \
        drop(push(&pool, &queue)); \
        drop(duly_outbox::Relay::sqlx_mysql); ";
    program(
        "duly-outbox = { path = \"{root}/outbox\", features = [\"sqlx-0-8\", \"sqlx-mysql\"] }\n\
         sqlx = { version = \"0.8\", features = [\"runtime-tokio\", \"mysql\"] }",
    )
    .that(main)
    .check();
}

/// A block of code of the page on transactions, and what a program does with it.
fn with_code_of_the_page(begin: &str, main: &str) -> &'static str {
    let page = include_str!("../../src/docs/transactions.md");
    let mut blocks = page
        .split("```text\n")
        .filter_map(|it| it.split("```").next());
    let block = blocks.find(|block| block.starts_with(begin));
    let block = block.expect("it is on the page");
    Box::leak(format!("{block}\n{main}").into_boxed_str())
}

/// A file with the tables, a relay of it, and a queue.
const FILE: &str = "let file = rusqlite::Connection::open(\"shop.db\").unwrap(); \
    file.pragma_update(None, \"journal_mode\", \"wal\").unwrap(); \
    let schema = duly_outbox::schema(duly_outbox::Database::Sqlite); \
    file.execute_batch(schema).unwrap(); drop(file); \
    let options = duly_outbox::RelayOptions::default(); \
    let relay = duly_outbox::Relay::rusqlite(&bus, \"shop.db\", options).await.unwrap(); \
    let queue = bus.queue_named::<u64>(\"orders\").unwrap(); \
    let hour = std::time::Duration::from_secs(3_600); ";
/// One of the two transactions that a program ends is committed.
const ONE: &str = "while bus.stats(\"orders\").await.unwrap().scheduled < 1 { \
        tokio::task::yield_now().await } \
    relay.stop().await; \
    assert_eq!(bus.stats(\"orders\").await.unwrap().scheduled, 1);";

#[test]
fn the_outbox_beside_sea_orm_2() {
    let main = "use sea_orm::TransactionTrait; \
        let shop = sea_orm::Database::connect(\"sqlite://shop.db\").await.unwrap(); \
        for is_kept in [false, true] { \
            let tx = shop.begin().await.unwrap(); \
            duly_outbox::PushIn::push_in(&queue, &mut SeaOrm(&tx), 7, hour).await.unwrap(); \
            if is_kept { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() } \
        } ";
    let main = format!("{FILE}{main}{ONE}");
    program(
        "duly-outbox = { path = \"{root}/outbox\", features = [\"rusqlite\"] }\n\
         rusqlite = { version = \"*\", features = [\"bundled\"] }\n\
         sea-orm = { version = \"2\", features = [\"runtime-tokio-rustls\", \"sqlx-sqlite\"] }",
    )
    .that(with_code_of_the_page("struct SeaOrm", &main))
    .check();
}

#[test]
fn the_outbox_beside_diesel_2() {
    let main = "use diesel::Connection; \
        let mut shop = diesel::SqliteConnection::establish(\"shop.db\").unwrap(); \
        for is_kept in [false, true] { \
            let done = shop.transaction(|tx| { \
                let mut tx = Diesel(tx); \
                let push = duly_outbox::PushIn::push_in(&queue, &mut tx, 7, hour); \
                duly_outbox::at_once(push).unwrap(); \
                if is_kept { Ok(()) } else { Err(diesel::result::Error::RollbackTransaction) } \
            }); \
            assert_eq!(done.is_ok(), is_kept); \
        } ";
    let main = format!("{FILE}{main}{ONE}");
    program(
        "duly-outbox = { path = \"{root}/outbox\", features = [\"rusqlite\"] }\n\
         rusqlite = { version = \"*\", features = [\"bundled\"] }\n\
         diesel = { version = \"2\", features = [\"sqlite\"] }",
    )
    .that(with_code_of_the_page("struct Diesel", &main))
    .check();
}
