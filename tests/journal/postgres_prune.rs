//! Pruning in PostgreSQL: by weeks, whatever was removed by hand, and by the settings of all.

use std::sync::Arc;
use std::time::Duration;

use duly::journal::{Journal, Keep};
use duly::records::Numbered;
use duly::time::Timestamp;

use crate::journal::harness::play;
use crate::journal::postgres::{Schema, connect};
use crate::journal::postgres_tables::WEEK_US;
use crate::journal::sample::{START_US, everything, load, many, minutes, prune, record};
use crate::servers::shared_postgres;

async fn journal(schema: &Schema) -> Arc<dyn Journal> {
    Arc::new(connect(&schema.url()).await)
}

fn weeks_apart(count: u64) -> Vec<Numbered> {
    let records = (0..count * 10).map(|n| record(n + 1, n / 10 * WEEK_US + n % 10));
    records.collect()
}

#[test]
fn a_large_week_goes_as_a_whole_once_all_of_it_is_too_old() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let mut records = weeks_apart(8);
        records.push(record(81, 8 * WEEK_US));
        load(&journal, &records).await;
        let tables =
            || schema.sql("SELECT count(*) FROM pg_inherits WHERE inhparent = 'records'::regclass");
        let made: u32 = tables().parse().expect("a number");
        // As if each week had many more.
        schema.sql("UPDATE weeks SET records = 1000000");
        let keep = |weeks: u64| Keep {
            age: Some(Duration::from_micros(weeks * WEEK_US)),
            count: None,
            minutes: None,
            at_once: true,
        };
        let now = Timestamp::from_micros_up(START_US + 8 * WEEK_US);
        // Of the four weeks that are kept a quarter may stay too long, to go with its week.
        let mut removed = 0;
        loop {
            let pruned = journal.prune(keep(4), now).await.expect("a step");
            removed += pruned.records;
            if !pruned.more {
                break;
            }
        }
        assert_eq!(removed, 4_000_000);
        assert_eq!(tables().parse::<u32>().expect("a number"), made - 4);
        assert_eq!(everything(&journal).await, records[40..]);
        // What comes late makes its week again, although this process knew it to be there.
        load(&journal, &records[..10]).await;
        assert_eq!(everything(&journal).await.len(), 51);
        assert_eq!(minutes(&journal).await.len(), 9);
    });
}

/// A session that is left in a transaction, or a dump, holds a week for as long as it likes.
#[test]
fn while_a_week_is_held_all_else_is_pruned_and_kept_as_agreed() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let records = weeks_apart(8);
        load(&journal, &records).await;
        schema.sql("UPDATE weeks SET records = 1000000");
        let server = shared_postgres().url();
        let connected = tokio_postgres::connect(&server, tokio_postgres::NoTls);
        let (reader, connection) = connected.await.expect("a server");
        let connection = tokio::spawn(connection);
        let reads = "BEGIN; SELECT count(*) FROM records";
        let reads = format!("SET search_path TO {}; {reads}", schema.name());
        reader.batch_execute(&reads).await.expect("a transaction");
        let week = Duration::from_micros(WEEK_US);
        let keep = Keep {
            age: Some(4 * week),
            count: None,
            minutes: Some(2 * week),
            at_once: true,
        };
        let now = Timestamp::from_micros_up(START_US + 7 * WEEK_US);
        let pruned = journal.prune(keep, now).await.expect("a step");
        assert_eq!(pruned.records, 0, "it is in use");
        assert_eq!(minutes(&journal).await.len(), 3, "of eight, two weeks back");
        let noted = "SELECT count(*) FROM pruned WHERE what LIKE 'keep %'";
        assert_eq!(schema.sql(noted), "3");
        reader.batch_execute("COMMIT").await.expect("its end");
        drop(reader);
        connection.await.expect("no panic").expect("a connection");
        let pruned = journal.prune(keep, now).await.expect("a step");
        assert_eq!(pruned.records, 1_000_000, "the oldest week");
    });
}

#[test]
fn rows_that_somebody_deleted_by_hand_do_not_stop_the_pruning() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let records = weeks_apart(3);
        load(&journal, &records).await;
        schema.sql("DELETE FROM records_2023_11_13");
        let keep = Keep {
            age: None,
            count: Some(5),
            minutes: None,
            at_once: true,
        };
        for _ in 0..10 {
            let pruned = journal.prune(keep, Timestamp::MAX).await.expect("a step");
            assert!(pruned.records <= 10);
        }
        assert_eq!(everything(&journal).await, records[25..]);
    });
}

#[test]
fn a_table_that_somebody_dropped_by_hand_does_not_stop_the_pruning() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let records = weeks_apart(4);
        load(&journal, &records).await;
        schema.sql("DROP TABLE records_2023_11_13");
        let keep = |age, count| Keep {
            age,
            count,
            minutes: None,
            at_once: true,
        };
        let by_count = keep(None, Some(15));
        for _ in 0..5 {
            journal
                .prune(by_count, Timestamp::MAX)
                .await
                .expect("a step");
        }
        assert_eq!(everything(&journal).await, records[25..]);
        // And the next one, by its age.
        schema.sql("DROP TABLE records_2023_11_27");
        let by_age = keep(Some(Duration::from_hours(24)), None);
        for _ in 0..5 {
            journal.prune(by_age, Timestamp::MAX).await.expect("a step");
        }
        assert_eq!(everything(&journal).await, records[30..]);
        assert_eq!(schema.sql("SELECT sum(records) FROM weeks"), "10");
    });
}

/// As the settings of a process say that has none of its own, or of one that has.
fn settings(age_ms: u64, count: u64) -> Keep {
    Keep {
        age: Some(Duration::from_millis(age_ms)),
        count: Some(count),
        minutes: Some(Duration::from_millis(age_ms)),
        at_once: false,
    }
}

#[test]
fn a_process_that_keeps_less_removes_nothing_that_another_one_keeps() {
    play(async {
        let schema = Schema::new();
        let (one, other) = (journal(&schema).await, journal(&schema).await);
        let records = many(1_000);
        load(&one, &records).await;
        let now = Timestamp::from_micros_up(START_US + 1_000_000);
        assert_eq!(prune(&one, settings(3_600_000, 600), now).await, 400);
        let counted = minutes(&one).await;
        for less in [
            settings(100, 10_000),
            settings(3_600_000, 10),
            settings(1, 1),
        ] {
            assert_eq!(prune(&other, less, now).await, 0, "{less:?}");
        }
        assert_eq!(everything(&one).await, records[400..]);
        assert_eq!(minutes(&one).await, counted);
        // Room is needed.
        let at_once = Keep {
            at_once: true,
            ..settings(3_600_000, 300)
        };
        assert_eq!(prune(&other, at_once, now).await, 300);
        assert_eq!(everything(&one).await, records[700..]);
    });
}

#[test]
fn what_nobody_has_asked_to_keep_for_a_day_goes() {
    play(async {
        let schema = Schema::new();
        let journal = journal(&schema).await;
        let records = many(1_000);
        load(&journal, &records).await;
        let now = Timestamp::from_micros_up(START_US + 1_000_000);
        assert_eq!(prune(&journal, settings(3_600_000, 600), now).await, 400);
        for (hours, goes) in [(23, 0), (25, 590)] {
            let sql = "UPDATE pruned SET since = (extract(epoch FROM clock_timestamp()) \
                       * 1000000)::bigint";
            schema.sql(&format!(
                "{sql} - {hours} * 3600000000 WHERE what LIKE 'keep %'"
            ));
            assert_eq!(prune(&journal, settings(3_600_000, 10), now).await, goes);
        }
        assert_eq!(everything(&journal).await, records[990..]);
    });
}
