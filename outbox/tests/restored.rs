//! Rows that a restored backup has again, under a relay that runs.

use std::process::Command;
use std::time::Duration;

use duly::prelude::*;
use sqlx_0_8::Executor;

use crate::aged::{forget, forgetful, forgetful_with_clock, push_an_hour_ago};
use crate::databases::{Outbox, REFUSED};
use crate::drivers::Driver;
use crate::world::{
    self, Order, Seen, TestDatabase, TestMysql, World, eventually, order, orders, push, push_to,
};

/// Waits until a table that is made has another time: those are whole seconds.
async fn another_second(database: &TestMysql) {
    let is_later = "select max(create_time) < now() - interval 1 second \
                    from information_schema.tables where table_schema = database()";
    database.until(is_later, 1).await;
}

/// The rows of the backup say that none was pushed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_of_mysql_under_a_relay_is_noticed() {
    for is_deferred in [false, true] {
        let (database, seen) = (TestMysql::new().await, Seen::default());
        let bus = forgetful(&seen).await;
        let queue = orders(&bus);
        database.push(&queue, 2).await;
        let backup =
            "create table backup as select event from duly_outbox; delete from duly_outbox";
        database.execute(backup).await;
        let relay = database.relay(&bus).await;
        database.push(&queue, 1).await;
        seen.reach(1).await;
        forget(&queue, &seen).await;
        another_second(&database).await;
        let restored = "create table restored like duly_outbox; \
                        create table restored_server like duly_outbox_server; \
                        insert into restored_server select * from duly_outbox_server";
        database.execute(restored).await;
        if !is_deferred {
            database
                .execute("insert into restored (event) select event from backup")
                .await;
        }
        database
            .execute(
                "rename table duly_outbox to gone, restored to duly_outbox, \
                 duly_outbox_server to gone_server, restored_server to duly_outbox_server",
            )
            .await;
        if is_deferred {
            database
                .execute(
                    "insert into duly_outbox_deferred (at, repeated, bucket, event) \
                     select 0, 0, 'orders/7', event from backup",
                )
                .await;
        }
        let aside = "select count(*) from duly_outbox_refused where reason like '%may have been%'";
        database.until(aside, 1).await;
        database.push(&queue, 3).await;
        seen.reach(1_002).await;
        assert!(!seen.numbers().contains(&2), "it may have been handled");
        relay.stop().await;
    }
}

/// Its id was chosen, and its records say that it was accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_chosen_id_that_a_backup_has_again_is_known_by_its_records() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let (store, bus) = forgetful_with_clock(&seen).await;
        let queue = orders(&bus);
        outbox.push_given(&queue, 1, queue.new_id()).await;
        outbox
            .execute("create table backup as select event, repeated from duly_outbox")
            .await;
        // Nothing but the row says of it that it may be over.
        let named = queue.id_for_name("3");
        push_an_hour_ago((&outbox, &store), (&queue, 3), named).await;
        outbox
            .execute(
                "insert into backup select event, true from duly_outbox \
                 where event not in (select event from backup)",
            )
            .await;
        let relay = outbox.relay(&bus).await;
        seen.reach(2).await;
        forget(&queue, &seen).await;
        outbox
            .execute("insert into duly_outbox (event, repeated) select event, repeated from backup")
            .await;
        outbox.push(&queue, 2..3, When::Now).await;
        seen.reach(1_003).await;
        outbox.settled().await;
        eventually("nothing is left to handle", async || {
            let stats = bus.stats("orders").await.unwrap();
            stats.scheduled + stats.ready + stats.leased == 0
        })
        .await;
        let counts = seen.counts();
        assert_eq!((counts[&1], counts[&3]), (1, 1), "doubled");
        assert_eq!(outbox.number(REFUSED).await, 0);
        relay.stop().await;
    }
}

/// Its place and, if it has a key, its id follow from it each time that it is read, by the number of
/// buckets that its queue has then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_rows_that_are_there_again_are_handled_once_whatever_the_number_of_buckets() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = world::bus("memory:", &seen).await;
        let queue = orders(&bus);
        for number in 0..24_u64 {
            let options = match number % 4 {
                0 => "{}".to_owned(),
                1 => format!("{{\"key\": \"customer:{number}\"}}"),
                2 => format!("{{\"key\": \"a\", \"unique\": \"order:{number}\"}}"),
                _ => format!("{{\"id\": \"{}\"}}", queue.id_for_name(&number.to_string())),
            };
            outbox.push_plain_with(number, &options).await;
        }
        let (an_hour_ago, again) = match outbox {
            Outbox::Postgres(_) => (
                "create table backup ()",
                "update duly_outbox_step set cluster = 'other' \
                 where n = (select max(n) from duly_outbox_step)",
            ),
            Outbox::Sqlite(_) | Outbox::Mysql(_) => (
                "update duly_outbox set at = at - 3600000; \
                 create table backup as select * from duly_outbox",
                "insert into duly_outbox select * from backup",
            ),
        };
        outbox.execute(an_hour_ago).await;
        let relay = outbox.relay(&bus).await;
        seen.reach(24).await;
        outbox.settled().await;
        for (restored, buckets) in (1..).zip([8, 3, 64, 5, 1]) {
            bus.set_buckets("orders", Some(buckets)).await.unwrap();
            outbox.execute(again).await;
            outbox.push_plain(100 + restored).await;
            seen.reach(24 + usize::try_from(restored).unwrap()).await;
            outbox.settled().await;
            eventually("nothing is left to handle", async || {
                let stats = bus.stats("orders").await.unwrap();
                stats.scheduled + stats.ready + stats.leased == 0
            })
            .await;
            let handled_again = seen.counts().into_iter().filter(|(_, count)| *count > 1);
            let handled_again: Vec<_> = handled_again.collect();
            assert_eq!(handled_again, [], "{}: {buckets} buckets", outbox.name());
        }
        assert_eq!(outbox.number(REFUSED).await, 0);
        relay.stop().await;
    }
}

/// It is put aside only if it may be over and forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_name_goes_on_if_that_cannot_double_it() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let (store, bus) = forgetful_with_clock(&seen).await;
        let queue = orders(&bus);
        let id = |number: u64| queue.id_for_name(&number.to_string());
        // It has waited for long and was never pushed.
        push_an_hour_ago((&outbox, &store), (&queue, 1), id(1)).await;
        // Earlier events of its name are over.
        queue.event(order(2)).id(id(2)).push().await.unwrap();
        seen.reach(1).await;
        forget(&queue, &seen).await;
        outbox.push_given(&queue, 2, id(2)).await;
        let relay = outbox.relay(&bus).await;
        eventually("both are handled", async || {
            let counts = seen.counts();
            counts.contains_key(&1) && counts[&2] == 2
        })
        .await;
        outbox.settled().await;
        relay.stop().await;
        // It may have been pushed, a moment ago, and long ago while the store has it.
        outbox.push_given(&queue, 3, id(3)).await;
        push_an_hour_ago((&outbox, &store), (&queue, 4), id(4)).await;
        let hour = When::After(Duration::from_secs(3_600));
        let waits = queue.event(order(4)).id(id(4)).when(hour);
        waits.push().await.unwrap();
        outbox
            .execute("update duly_outbox set repeated = true")
            .await;
        let relay = outbox.relay(&bus).await;
        seen.reach(1_003).await;
        outbox.settled().await;
        eventually("only what is due later is left", async || {
            let stats = bus.stats("orders").await.unwrap();
            (stats.scheduled, stats.ready + stats.leased) == (1, 0)
        })
        .await;
        let counts = seen.counts();
        assert_eq!((counts[&1], counts[&2], counts[&3]), (1, 2, 1));
        assert_eq!(outbox.number(REFUSED).await, 0);
        relay.stop().await;
    }
}

/// Its server, its transaction ids and its steps are those of before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_of_postgresql_by_sql_is_noticed() {
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let bus = forgetful(&seen).await;
    let queue = orders(&bus);
    let relay = || Driver::Sqlx09.relay(&bus, &database.url);
    let first = relay().await.unwrap();
    push_to(&database.pool, &queue, 1).await;
    seen.reach(1).await;
    first.stop().await;
    push_to(&database.pool, &queue, 2).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.dump");
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let command = command.args(arguments).arg("-d").arg(&database.url);
        let done = command.arg("-f").arg(&file).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    run("pg_dump", &[]);
    forget(&queue, &seen).await;
    let empty = "drop schema public cascade; create schema public";
    database.pool.execute(empty).await.unwrap();
    run("psql", &["-q", "-v", "ON_ERROR_STOP=1"]);
    let second = relay().await.unwrap();
    let aside = "select count(*) from duly_outbox_refused where reason like '%may have been%'";
    database.until(aside, 1).await;
    push_to(&database.pool, &queue, 3).await;
    seen.reach(1_002).await;
    assert!(!seen.numbers().contains(&2), "it may have been handled");
    second.stop().await;
}

/// It makes tables anew, with all of their rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintenance_of_mysql_is_no_restore() {
    let all = "duly_outbox, duly_outbox_deferred, duly_outbox_refused, duly_done, duly_outbox_salt";
    for maintenance in [
        "optimize table duly_outbox",
        &format!("optimize table {all}"),
        "alter table duly_outbox add column note integer, force",
        "alter table duly_outbox drop column anew",
    ] {
        let outbox = Outbox::Mysql(TestMysql::new().await);
        let Outbox::Mysql(database) = &outbox else {
            return;
        };
        let seen = Seen::default();
        let (store, bus) = forgetful_with_clock(&seen).await;
        let queue = orders(&bus);
        let first = database.relay(&bus).await;
        database.push(&queue, 1).await;
        seen.reach(1).await;
        first.stop().await;
        // Nothing but the row says of either that it was never pushed.
        push_an_hour_ago((&outbox, &store), (&queue, 2), queue.id_for_name("2")).await;
        database.push(&queue, 3).await;
        forget(&queue, &seen).await;
        another_second(database).await;
        database.execute(maintenance).await;
        database.execute(outbox.schema()).await; // as at an upgrade
        let second = database.relay(&bus).await;
        let is_over = async || {
            let (handled, refused) = (seen.numbers(), database.number(REFUSED).await);
            handled.contains(&2) && handled.contains(&3) || refused > 0
        };
        eventually("both are handled or put aside", is_over).await;
        assert_eq!(database.number(REFUSED).await, 0, "{maintenance}");
        second.stop().await;
    }
}

/// Pushes while relays at other servers take rows, which write what `note` says: it is known of rows
/// that they were not pushed.
async fn push_beside_others(
    (database, queue, seen): (&TestMysql, &Queue<Order>, &Seen),
    note: impl Fn(u64) -> String,
) {
    let handled = seen.numbers().len();
    let deferred = "insert into duly_outbox_deferred (at, repeated, holder, held_until, bucket, event) \
                    select 0, 0, 'other', max(held_until) + 50000, 'orders/7', 'none' \
                    from (select 1000 * unix_timestamp() as held_until) as now";
    for number in 100..120 {
        database.execute(&note(number)).await;
        database.push(queue, number).await;
        if number == 110 {
            seen.reach(handled + 11).await;
            database.execute(deferred).await;
        }
    }
    seen.reach(handled + 20).await;
    let marked = "select count(*) from duly_outbox_deferred where repeated > 0";
    assert_eq!(database.number(marked).await, 0);
}

/// Each names itself in a row of its own, whenever it takes rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_at_other_servers_of_a_cluster_of_mysql_disturb_none() {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let bus = forgetful(&seen).await;
    let queue = orders(&bus);
    let relay = database.relay(&bus).await;
    let note = |number| {
        format!(
            "insert into duly_outbox_server values ('a', 'shop/{number}'), ('z', 'shop/{number}') \
             on duplicate key update identity = 'shop/{number}'"
        )
    };
    push_beside_others((&database, &queue, &seen), note).await;
    let servers = "select count(*) from duly_outbox_server";
    assert_eq!(database.number(servers).await, 3);
    relay.stop().await;
}

/// Or none has a name: the tables of each were made at another time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_a_cluster_of_mysql_that_are_named_alike_disturb_none() {
    let (database, seen) = (TestMysql::new().await, Seen::default());
    let bus = forgetful(&seen).await;
    let queue = orders(&bus);
    // As a relay at the other server has it.
    database.relay(&bus).await.stop().await;
    database
        .execute("create table noted as select * from duly_outbox_server")
        .await;
    another_second(&database).await;
    for table in ["duly_outbox", "duly_outbox_server"] {
        database
            .execute(&format!("alter table {table} force"))
            .await;
    }
    let relay = database.relay(&bus).await;
    let note = |_| "replace into duly_outbox_server select * from noted".to_owned();
    push_beside_others((&database, &queue, &seen), note).await;
    relay.stop().await;
}

/// Rows that say that a transaction of long ago has written them would count as passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_put_back_beside_a_relay_of_postgresql_are_pushed() {
    let world = World::new().await;
    let pool = &world.database.pool;
    let kept = "create table backup as select * from duly_outbox; truncate duly_outbox";
    let named = "insert into duly_outbox \
                     (at, repeated, anew, event, queue, payload, due, id, options) \
                 select at, true, anew, event, queue, payload, due, id, options from backup";
    let whole = "begin; insert into duly_outbox select * from backup; \
                 update duly_outbox set xid = pg_current_xact_id(), repeated = true \
                 where xid in (select xid from backup); commit";
    for (number, put_back) in [(1, named), (2, whole)] {
        push(&world, number).await;
        pool.execute(kept).await.unwrap();
        let relay = world.relay().await;
        push(&world, 10 + number).await;
        let handled = 2 * usize::try_from(number).unwrap();
        world.seen.reach(handled - 1).await;
        pool.execute(put_back).await.unwrap();
        world.seen.reach(handled).await;
        relay.stop().await;
        pool.execute("drop table backup").await.unwrap();
    }
    assert_eq!(world.seen.numbers(), [1, 2, 11, 12]);
    assert!(world.seen.counts().values().all(|count| *count == 1));
}
