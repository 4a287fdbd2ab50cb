//! The SQL of the tables, run again in the life of an outbox.

use duly_outbox::{Database, schema};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};

use crate::databases::Outbox;
use crate::world::{TestDatabase, TestMysql};

/// Runs the SQL while a transaction is open that has written into every table.
async fn again_in_postgresql(database: &TestDatabase) {
    let mut open = database.client().await;
    let open = open.transaction().await.unwrap();
    let tables = "select oid::regclass::text from pg_class where relkind in ('r', 'p') \
                  and relname like 'duly%'";
    let tables = open.query(tables, &[]).await.unwrap();
    assert!(tables.len() >= 12, "{tables:?}");
    for table in tables {
        let table: String = table.get(0);
        let lock = format!("lock table {table} in row exclusive mode");
        open.batch_execute(&lock).await.unwrap();
    }
    let again = database.client().await;
    again
        .batch_execute("set lock_timeout = '2s'")
        .await
        .unwrap();
    let sql = schema(Database::Postgres);
    again.batch_execute(sql).await.unwrap();
}

async fn again_in_mariadb(database: &TestMysql) {
    let mut open = database.pool.begin().await.unwrap();
    let tables = "select table_name from information_schema.tables \
                  where table_schema = database() and table_name like 'duly%'";
    let tables: Vec<String> = sqlx::query_scalar(tables)
        .fetch_all(&mut *open)
        .await
        .unwrap();
    assert!(tables.len() >= 8, "{tables:?}");
    for table in tables {
        let delete = AssertSqlSafe(format!("delete from {table} where 1 = 0"));
        sqlx::Executor::execute(&mut *open, delete).await.unwrap();
    }
    let mut again = MySqlConnection::connect(&database.url).await.unwrap();
    for sql in ["set lock_wait_timeout = 2", schema(Database::Mysql)] {
        let run = sqlx::Executor::execute(&mut again, AssertSqlSafe(sql));
        run.await.unwrap();
    }
}

/// What waits for a transaction of yours lets all others wait behind it. In a file of SQLite each writer
/// waits for the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schema_waits_for_no_transaction_that_is_open() {
    for outbox in Outbox::all().await {
        match outbox {
            Outbox::Postgres(database) => again_in_postgresql(&database).await,
            Outbox::Sqlite(_) => {}
            Outbox::Mysql(database) => again_in_mariadb(&database).await,
        }
    }
}

/// Each store has a schema of its own, and the others may be in the search path.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_has_all_that_another_one_in_the_search_path_has() {
    let database = TestDatabase::new().await;
    let client = database.client().await;
    let own = "create schema own; set search_path = own, public";
    client.batch_execute(own).await.unwrap();
    let sql = schema(Database::Postgres);
    client.batch_execute(sql).await.unwrap();
    let of = |schema: &str| {
        format!(
            "select relname, relkind, relreplident from pg_class \
             where relnamespace = '{schema}'::regnamespace"
        )
    };
    let differ = |one: &str, other: &str| {
        format!(
            "select count(*) from ({} except {}) as missing",
            of(one),
            of(other)
        )
    };
    for differ in [differ("public", "own"), differ("own", "public")] {
        assert_eq!(database.number(&differ).await, 0, "{differ}");
    }
}
