//! The tables in PostgreSQL: how they come to be, and what is kept whatever is done to them.

use std::sync::Arc;
use std::time::Duration;

use duly::ErrorKind;
use duly::event::Payload;
use duly::journal::{Journal, Keep, PostgresJournal};
use duly::records::{Numbered, Outcome, Query, Record};
use duly::time::Timestamp;

use crate::journal::harness::play;
use crate::journal::postgres::{Schema, connect};
use crate::journal::sample::{
    START_US, batch, batch_of, counted, everything, id, load, many, minutes, numbers, page, queue,
    record, sorted, with,
};
use crate::servers::shared_postgres;

pub(crate) const WEEK_US: u64 = 7 * 86_400_000_000;

async fn journal(schema: &Schema) -> Arc<dyn Journal> {
    Arc::new(connect(&schema.url()).await)
}

#[test]
fn ten_nodes_that_start_at_once_make_the_tables_once() {
    play(async {
        for _ in 0..3 {
            let schema = Schema::new();
            let nodes = (0..10).map(|node| {
                let url = schema.url();
                tokio::spawn(async move {
                    let journal: Arc<dyn Journal> = Arc::new(connect(&url).await);
                    let own = [record(node, node * 100)];
                    let outbox = batch_of(&format!("node-{node}"), &own);
                    journal.load(vec![outbox]).await.expect("a load");
                })
            });
            for node in nodes.collect::<Vec<_>>() {
                node.await.expect("a node");
            }
            assert_eq!(
                schema.sql("SELECT max(version), count(*) FROM versions"),
                "4|1"
            );
            assert_eq!(everything(&journal(&schema).await).await.len(), 10);
        }
    });
}

#[test]
fn tables_of_a_newer_duly_are_refused() {
    play(async {
        let schema = Schema::new();
        journal(&schema).await;
        schema.sql("INSERT INTO versions (version) VALUES (99)");
        let error = PostgresJournal::connect(&schema.url()).await;
        let error = error.expect_err("newer");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("version 99"), "{error}");
    });
}

/// A server that dies soon after the end of an unlogged table may refuse its next start.
#[test]
fn no_load_creates_an_unlogged_table() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let name = schema.name();
        schema.sql(&format!(
            "CREATE TABLE created (name name, unlogged bool);
             CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
             BEGIN -- for roles of other tests as well, as it is one of the whole database
                 INSERT INTO {name}.created SELECT relname, relpersistence = 'u' FROM pg_class
                     WHERE relnamespace = '{name}'::regnamespace AND relkind = 'r';
             END $$;
             CREATE EVENT TRIGGER {name} ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
                 EXECUTE FUNCTION {name}.note()"
        ));
        load(&journal, &many(3)).await;
        load(&journal, &many(5)).await; // by the slow way
        schema.sql(&format!("DROP EVENT TRIGGER {name}"));
        assert_eq!(everything(&journal).await, many(5));
        let created = |what| {
            let which = format!("SELECT count(*) > 0 FROM created WHERE {what}");
            schema.sql(&which)
        };
        assert_eq!(created("name LIKE 'loading%'"), "t");
        assert_eq!(created("unlogged"), "f");
    });
}

#[test]
fn a_mark_that_is_wrong_costs_no_record_and_doubles_none() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let records = many(100);
        load(&journal, &records[..50]).await;
        // Too low: what is there already is taken for new.
        schema.sql("UPDATE outboxes SET mark = 0");
        load(&journal, &records[..60]).await;
        assert_eq!(everything(&journal).await, records[..60]);
        // Too high: what is new is taken for old.
        schema.sql("UPDATE outboxes SET mark = 1000000");
        load(&journal, &records[60..80]).await;
        // Gone altogether.
        schema.sql("DELETE FROM outboxes");
        load(&journal, &records[70..]).await;
        assert_eq!(everything(&journal).await, records);
        assert_eq!(minutes(&journal).await, counted(&records));
        assert_eq!(schema.sql("SELECT sum(records) FROM weeks"), "100");
    });
}

#[test]
fn two_stores_under_one_name_keep_all_of_both() {
    play(async {
        let schema = Schema::new();
        let of = |store: u64| -> Vec<Numbered> {
            let records = (1..=300).map(|number| {
                with(record(number, number * 1_000), |it| {
                    it.id = id(store * 1_000_000 + number);
                })
            });
            records.collect()
        };
        let stores = [of(1), of(2)];
        let loaders = stores.clone().map(|records| {
            let url = schema.url();
            tokio::spawn(async move {
                let journal: Arc<dyn Journal> = Arc::new(connect(&url).await);
                for part in records.chunks(17) {
                    load(&journal, part).await;
                }
            })
        });
        for loader in loaders {
            loader.await.expect("a loader");
        }
        let expected = sorted(&stores.concat());
        let journal = journal(&schema).await;
        assert_eq!(everything(&journal).await, expected);
        assert_eq!(minutes(&journal).await, counted(&expected));
    });
}

#[test]
fn a_record_of_any_time_has_a_place() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let most = i64::MAX as u64;
        let times = [
            0,
            1,
            START_US,
            START_US + 50 * WEEK_US,
            4_733_510_400_000_000,
            most,
        ];
        let records: Vec<_> = times
            .into_iter()
            .zip(1..)
            .map(|(us, n)| with(record(n, 0), |it| it.stages.finished_us = us))
            .collect();
        load(&journal, &records).await;
        assert_eq!(everything(&journal).await, records);
        // Beyond what is put in order it is the largest time there is, and kept all the same.
        let beyond = with(record(9, 0), |it| it.stages.finished_us = u64::MAX);
        load(&journal, &[beyond]).await;
        let last = everything(&journal).await.pop().expect("some");
        assert_eq!((last.0, last.1.stages.finished_us), (9, most));
    });
}

#[test]
fn a_text_with_a_zero_in_it_is_found_by_it() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let odd = with(record(1, 1), |it| it.key = Some("a\0b".to_owned()));
        load(&journal, &[odd]).await;
        let query = duly::records::Query {
            key: Some("a\0b".to_owned()),
            ..Default::default()
        };
        let found = journal.page(query).await.expect("a page").records;
        assert_eq!(found[0].1.key.as_deref(), Some("a\u{FFFD}b"));
    });
}

#[test]
fn a_week_is_made_while_others_load_and_read() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        load(&journal, &many(1)).await;
        let (other, driver) =
            tokio_postgres::connect(&shared_postgres().url(), tokio_postgres::NoTls)
                .await
                .expect("a connection");
        tokio::spawn(driver);
        let hold = format!(
            "SET search_path TO {}; BEGIN; SELECT count(*) FROM records; \
             UPDATE records SET attempt = attempt",
            schema.name()
        );
        other.batch_execute(&hold).await.expect("locks");
        let later = record(2, 10 * WEEK_US);
        let loaded = journal.load(vec![batch(&[later])]);
        let loaded = tokio::time::timeout(Duration::from_secs(10), loaded).await;
        loaded.expect("it waits for nobody").expect("a load");
        // Dropping a week would wait for them, and gives up before anybody notices.
        schema.sql("UPDATE weeks SET records = 1000000");
        let keep = Keep {
            age: Some(Duration::ZERO),
            count: None,
            minutes: None,
            at_once: true,
        };
        let began = tokio::time::Instant::now();
        let pruned = journal.prune(keep, Timestamp::MAX).await.expect("a step");
        assert_eq!((pruned.records, pruned.more), (0, false));
        assert!(began.elapsed() < Duration::from_secs(10));
        other.batch_execute("COMMIT").await.expect("a commit");
        let pruned = journal.prune(keep, Timestamp::MAX).await.expect("a step");
        assert_eq!(pruned.records, 1_000_000);
    });
}

#[test]
fn a_load_that_waits_does_not_keep_another_one_waiting() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        load(&journal, &many(1)).await;
        let (other, driver) =
            tokio_postgres::connect(&shared_postgres().url(), tokio_postgres::NoTls)
                .await
                .expect("a connection");
        tokio::spawn(driver);
        let hold = format!(
            "SET search_path TO {}; BEGIN; SELECT * FROM outboxes FOR UPDATE",
            schema.name()
        );
        other.batch_execute(&hold).await.expect("a lock");
        let waits = tokio::spawn(journal.load(vec![batch(&many(2))]));
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        while schema.sql(waiting) == "0" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let goes = journal.load(vec![batch_of("other", &[record(7, 7_000)])]);
        let goes = tokio::time::timeout(Duration::from_secs(10), goes).await;
        goes.expect("it waits for nobody").expect("a load");
        assert!(!waits.is_finished());
        other.batch_execute("COMMIT").await.expect("a commit");
        waits.await.expect("a task").expect("a load");
        assert_eq!(everything(&journal).await.len(), 3);
    });
}

#[test]
fn other_tools_read_it_as_history_and_as_tasks() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let of = |number, after_us, outcome| {
            with(record(number, after_us), |it| {
                it.id = id(42);
                it.outcome = outcome;
                it.key = Some("order:7".to_owned());
                it.payload = Some(Payload::from(b"{}".to_vec()));
            })
        };
        let odd = with(record(9, 9), |it| {
            (it.id, it.queue) = (id(42), queue("sms")); // another event
            it.outcome = Outcome::Cancelled;
            it.due = Timestamp::MAX;
            it.payload = Some(Payload::from(b"\xFF\0".to_vec()));
            it.stages.started_us = u64::MAX;
        });
        let records = [of(1, 5, Outcome::Retried), of(2, 8, Outcome::Acked), odd];
        load(&journal, &records).await;
        let text = id(42).to_string();
        assert_eq!(
            schema.sql(
                "SET timezone TO 'UTC'; SELECT id, queue, key, attempt, outcome, finished, late_us, \
                 node, payload, number FROM history ORDER BY number"
            ),
            format!(
                "{text}|orders|order:7|1|retried|2023-11-14 22:14:00.000005+00|1005|\
                 0000000000000007|{{}}|1\n\
                 {text}|orders|order:7|1|acked|2023-11-14 22:14:00.000008+00|1008|\
                 0000000000000007|{{}}|2\n\
                 {text}|sms||1|cancelled|2023-11-14 22:14:00.000009+00||0000000000000007||9"
            )
        );
        assert_eq!(
            schema.sql(
                "SET timezone TO 'UTC'; SELECT id, created, modified, business_id, business_type, \
                 status, action_time, attributes FROM tasks ORDER BY modified"
            ),
            format!(
                "{text}|2023-11-14 22:14:00+00|2023-11-14 22:14:00.000008+00|order:7|orders|\
                 processed|2023-11-14 22:13:59.998+00|{{}}\n\
                 {text}|2023-11-14 22:14:00+00|2023-11-14 22:14:00.000009+00||sms|cancelled||"
            )
        );
    });
}

#[test]
fn the_examples_of_the_guide_run() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let failed = Record {
            outcome: Outcome::Buried,
            ..record(1, 1).1
        };
        journal
            .load(vec![batch_of("store", &[(1, failed)])])
            .await
            .expect("a load");
        let examples = crate::journal::guide::examples("## The PostgreSQL journal");
        assert!(!examples.is_empty());
        for sql in examples {
            let sql = sql.replace("duly.", &format!("{}.", schema.name()));
            // An error would be what it prints, and the server's own words.
            schema.sql(&sql);
        }
    });
}

/// A newer duly may know more outcomes; one row of it hides nothing else, and no page ends at it.
#[test]
fn rows_that_are_unknown_are_passed_over_and_hide_none_of_the_others() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let records = many(10);
        load(&journal, &records).await;
        schema.sql("UPDATE records SET outcome = 'postponed' WHERE number <= 4");
        schema.sql("UPDATE records SET queue = 'no name' WHERE number = 6");
        for limit in [1, 2, 3, 20] {
            for of_queue in [None, Some(records[9].1.queue.clone())] {
                let query = Query {
                    limit: Some(limit),
                    queue: of_queue,
                    ..Query::default()
                };
                let found = numbers(&journal, query).await;
                assert_eq!(found, [5, 7, 8, 9, 10], "{limit}");
            }
        }
        assert_eq!(page(&journal, Query::default()).await.skipped, 5);
        schema.sql("UPDATE minutes SET outcome = 'postponed' WHERE outcome = 'acked'");
        let counts = minutes(&journal).await;
        assert_eq!(counts.len(), counted(&records).len());
    });
}
