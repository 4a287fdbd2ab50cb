//! Databases of PostgreSQL with other settings and encodings than usual.

use duly::prelude::*;
use duly_outbox::PushIn;
use sqlx_0_8::{Executor, PgPool};

use crate::aged::{forget, forgetful};
use crate::databases::{DEFERRED, REFUSED, refused};
use crate::drivers::Driver;
use crate::world::{Seen, TestDatabase, bus, eventually, order, orders, push_to};

/// What an operator may have chosen for all sessions, each far from what is usual.
const SETTINGS: [&str; 12] = [
    "standard_conforming_strings = off",
    "escape_string_warning = off",
    "bytea_output = escape",
    "datestyle = 'SQL, DMY'",
    "intervalstyle = sql_standard",
    "timezone = 'Asia/Kolkata'",
    "extra_float_digits = -15",
    "default_transaction_isolation = serializable",
    "default_transaction_deferrable = on",
    "transform_null_equals = on",
    "quote_all_identifiers = on",
    "array_nulls = off",
];

/// Events of every form pass, and what is put aside says why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_in_postgresql_depends_on_no_setting_of_its_database() {
    for driver in Driver::ALL {
        let (mut database, seen) = (TestDatabase::new().await, Seen::default());
        for setting in SETTINGS {
            let setting = format!(
                "do $$ begin execute format('alter database %I set {}', current_database()); end $$",
                setting.replace('\'', "''")
            );
            database.pool.execute(&*setting).await.unwrap();
        }
        database.pool = PgPool::connect(&database.url).await.unwrap();
        let bus = forgetful(&seen).await;
        let queue = orders(&bus);
        // Its id is too old, so it is deferred, and goes on under another one.
        push_to(&database.pool, &queue, 1).await;
        forget(&queue, &seen).await;
        for (number, option) in [(2, r#""version": 3"#), (3, r#""a\\'t": 3"#)] {
            let push = format!(
                "select duly_push('orders', $${{\"number\": {number}}}$$, '0 s', $${{{option}}}$$)"
            );
            database.pool.execute(&*push).await.unwrap();
        }
        let mut tx = database.pool.begin().await.unwrap();
        let many = queue.push_many_in(&mut tx, [order(4), order(5)], When::Now);
        many.await.unwrap();
        tx.commit().await.unwrap();
        let relay = driver.relay(&bus, &database.url).await.unwrap();
        seen.reach(1_004).await;
        database.until(DEFERRED, 0).await;
        database.until(REFUSED, 1).await;
        let aside = refused("`a_''t`");
        assert_eq!(database.number(&aside).await, 1, "{driver:?}");
        let counts = seen.counts();
        let once = [1, 2, 4, 5].map(|number| counts.get(&number).copied());
        assert_eq!(once, [Some(1); 4], "{driver:?}");
        relay.stop().await;
    }
}

/// When an operator publishes every table of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Published {
    BeforeTheTables,
    BeforeTheRelay,
    BesideTheRelay,
}

/// Of a published table that has no replica identity PostgreSQL refuses each update and each delete,
/// also of no row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_in_postgresql_goes_on_where_every_table_is_published() {
    use Published::{BeforeTheRelay, BeforeTheTables, BesideTheRelay};

    let when = [BeforeTheTables, BeforeTheRelay, BesideTheRelay];
    let drivers = Driver::ALL.into_iter().cycle();
    let kinds = ["", " with (publish_via_partition_root)"];
    let kinds = kinds.map(|kind| when.map(|when| (kind, when)));
    for ((kind, when), driver) in kinds.into_iter().flatten().zip(drivers) {
        let (database, seen) = (TestDatabase::empty().await, Seen::default());
        let publish = async |now: Published| {
            if now == when {
                let publish = format!("create publication every for all tables{kind}");
                database.pool.execute(&*publish).await.unwrap();
            }
        };
        publish(BeforeTheTables).await;
        let schema = duly_outbox::schema(duly_outbox::Database::Postgres);
        database.pool.execute(schema).await.unwrap();
        publish(BeforeTheRelay).await;
        let bus = bus("memory:", &seen).await;
        let relay = driver.relay(&bus, &database.url).await.unwrap();
        push_to(&database.pool, &orders(&bus), 1).await;
        let wrong = "select duly_push('no such name!', '1')";
        database.pool.execute(wrong).await.unwrap();
        seen.reach(1).await;
        database.until(REFUSED, 1).await;
        publish(BesideTheRelay).await;
        let again = "select duly_outbox_retry(n) from duly_outbox_refused";
        database.pool.execute(again).await.unwrap();
        database.until(REFUSED, 1).await;
        let restored = "update duly_outbox_step set cluster = 'restored'";
        database.pool.execute(restored).await.unwrap();
        push_to(&database.pool, &orders(&bus), 2).await;
        seen.reach(2).await;
        relay.stop().await;
        // Also of what is written only now and then.
        let without = "select count(*) from pg_class as it where relname like 'duly%' \
                       and relkind = 'r' and relreplident <> 'f' and not exists \
                       (select from pg_index where indrelid = it.oid and indisprimary)";
        assert_eq!(database.number(without).await, 0, "{kind} {when:?}");
        // Tables of before have none.
        let before = "alter table duly_outbox_1 replica identity default";
        database.pool.execute(before).await.unwrap();
        database.pool.execute(schema).await.unwrap();
        assert_eq!(database.number(without).await, 0, "{kind} {when:?}");
    }
}

/// Those that PostgreSQL has for a database, but for one that no client of UTF-8 can use.
const ENCODINGS: &str = "EUC_CN EUC_JIS_2004 EUC_JP EUC_KR EUC_TW ISO_8859_5 ISO_8859_6 ISO_8859_7 \
    ISO_8859_8 KOI8R KOI8U LATIN1 LATIN2 LATIN3 LATIN4 LATIN5 LATIN6 LATIN7 LATIN8 LATIN9 LATIN10 \
    SQL_ASCII UTF8 WIN866 WIN874 WIN1250 WIN1251 WIN1252 WIN1253 WIN1254 WIN1255 WIN1256 WIN1257 \
    WIN1258";

/// Pushes every single byte beside ASCII, and some of several, as far as the database takes them for a
/// text.
const PUSH_BYTES: &str = r#"
    do $$ declare bytes bytea; number integer := 0; begin
        for bytes in
            select set_byte('\x00', 0, one) || more
            from generate_series(128, 255) as one,
                unnest(array['', '\xa1', '\xfe', '\xa1a1', '\xa1a1a1']::bytea[]) as more
        loop
            begin
                perform duly_push('orders', ('{"number": ' || number || ', "of": "'
                    || convert_from(bytes, getdatabaseencoding()) || '"}')::json);
                number := number + 1;
            exception when character_not_in_repertoire or untranslatable_character then
            end;
        end loop;
    end $$"#;

/// Many an encoding has holes, which PostgreSQL takes and cannot send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_byte_in_any_encoding_of_postgresql_blocks_an_outbox() {
    for (driver, encoding) in Driver::ALL.into_iter().cycle().zip(ENCODINGS.split(' ')) {
        let database = TestDatabase::in_encoding(encoding).await;
        let (database, seen) = (database.with_tables().await, Seen::default());
        let bus = bus("memory:", &seen).await;
        database.pool.execute(PUSH_BYTES).await.unwrap();
        let pushed = database.number("select count(*) from duly_outbox").await;
        let relay = driver.relay(&bus, &database.url).await.unwrap();
        let all = async || seen.numbers().len() as i64 + database.number(REFUSED).await == pushed;
        eventually(&format!("{driver:?}: all of {pushed} in {encoding}"), all).await;
        let aside = database.number(&refused("payload is not UTF-8")).await;
        assert_eq!(aside, database.number(REFUSED).await, "{encoding}");
        let expected = match encoding {
            "UTF8" | "LATIN1" => Some(0),
            "WIN1252" => Some(5 * 5),
            _ => None,
        };
        assert_eq!(expected.unwrap_or(aside), aside, "{encoding}");
        relay.stop().await;
    }
}

/// Such a database takes any bytes, as each of its programs means them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_of_postgresql_that_is_not_utf_8_is_put_aside_and_blocks_nothing() {
    for (driver, encoding) in Driver::ALL
        .into_iter()
        .zip(["SQL_ASCII", "WIN1253", "SQL_ASCII"])
    {
        let database = TestDatabase::in_encoding(encoding).await;
        let (database, seen) = (database.with_tables().await, Seen::default());
        let bus = bus("memory:", &seen).await;
        let wrong = [
            ("payload", r#"duly_push('orders', E'"\xd2"')"#),
            ("queue", r"duly_push(E'\xd2', '1')"),
            (
                "options",
                r#"duly_push('orders', '1', '0', E'{"key": "\xd2"}')"#,
            ),
            ("id", r#"duly_push('orders', '1', '0', E'{"id": "\xd2"}')"#),
        ];
        for (_, call) in wrong {
            database
                .pool
                .execute(&*format!("select {call} is null"))
                .await
                .unwrap();
        }
        let right = r#"select duly_push('orders', E'{"number": 1, "of": "Zo\xc3\xab"}')"#;
        database.pool.execute(right).await.unwrap();
        push_to(&database.pool, &orders(&bus), 2).await;
        let relay = driver.relay(&bus, &database.url).await.unwrap();
        seen.reach(2).await;
        database.until(REFUSED, 4).await;
        for (name, _) in wrong {
            let aside = refused(&format!("the {name} is not UTF-8"));
            assert_eq!(database.number(&aside).await, 1, "{driver:?}: {name}");
        }
        assert!(!relay.has_ended());
        relay.stop().await;
    }
}

/// A reason may quote what JSON writes by its number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reason_that_the_encoding_of_postgresql_lacks_blocks_nothing() {
    for driver in Driver::ALL {
        let database = TestDatabase::in_encoding("LATIN1").await;
        let (database, seen) = (database.with_tables().await, Seen::default());
        let bus = bus("memory:", &seen).await;
        for sql in [
            r#"insert into duly_outbox (queue, payload, id, options)
               values ('orders', '1', duly_new_id(), '{"\ud83e\udd89": 3}')"#,
            r#"select duly_push('orders', '1', '0', '{"Zoë": 3}')"#,
            r#"select duly_push('orders', '{"number": 1, "of": "Zoë"}')"#,
        ] {
            database.pool.execute(sql).await.unwrap();
        }
        let relay = driver.relay(&bus, &database.url).await.unwrap();
        seen.reach(1).await;
        database.until(REFUSED, 2).await;
        let aside = refused("no option `");
        assert_eq!(database.number(&aside).await, 2, "{driver:?}");
        relay.stop().await;
    }
}
