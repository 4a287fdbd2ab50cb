//! What an older duly has written is brought up to date, with everything in it.

use std::path::Path;
use std::sync::Arc;

use duly::ErrorKind;
use duly::journal::{Journal, Keep, SqliteJournal};
use duly::records::{Numbered, Query};
use duly::time::Timestamp;
use rusqlite::Connection;

use crate::journal::harness::play;
use crate::journal::postgres::{Schema, connect};
use crate::journal::sample::{batch, counted, everything, load, many, minutes, numbers, trace};

/// Makes tables of version 2 out of the newest.
const TO_VERSION_2: &str = "
ALTER TABLE lateness RENAME TO newest;
ALTER INDEX lateness_pkey RENAME TO newest_pkey;
CREATE TABLE lateness (
    start   bigint NOT NULL,
    queue   text COLLATE \"C\" NOT NULL,
    slot    smallint NOT NULL,
    records bigint NOT NULL,
    PRIMARY KEY (start, queue, slot)
) WITH (fillfactor = 70);
INSERT INTO lateness SELECT start, queue, u.slot, u.records
    FROM newest, unnest(slots, newest.records) AS u (slot, records);
DROP TABLE newest;
DROP TABLE pruned;
DELETE FROM versions WHERE version > 2;";

/// Makes tables of version 1 out of those of version 2.
const TO_VERSION_1: &str = "
DROP INDEX records_time, records_queue, records_node, records_key, records_trace,
    records_not_acked, records_error;
CREATE INDEX records_time ON records (finished, number);
CREATE INDEX records_queue ON records (queue, finished, number);
CREATE INDEX records_node ON records (node, finished, number);
CREATE INDEX records_key ON records (key, finished, number) WHERE key IS NOT NULL;
CREATE INDEX records_trace ON records (trace, finished, number) WHERE trace IS NOT NULL;
CREATE INDEX records_not_acked ON records (finished, number) WHERE outcome <> 'acked';
CREATE INDEX records_error ON records (finished, number) WHERE error IS NOT NULL;
DELETE FROM versions WHERE version > 1;";

/// Records of which every third has a key and a trace.
fn records() -> Vec<Numbered> {
    let mut records = many(60);
    for (number, record) in &mut records {
        if number.is_multiple_of(3) {
            record.key = Some("order:7".to_owned());
            record.trace = Some(trace(1));
        }
    }
    records
}

/// Everything is there, and found, and more can come.
async fn is_whole(journal: &Arc<dyn Journal>) {
    let records = records();
    assert_eq!(everything(journal).await, records[..40]);
    assert_eq!(minutes(journal).await, counted(&records[..40]));
    load(journal, &records).await;
    assert_eq!(everything(journal).await, records);
    assert_eq!(minutes(journal).await, counted(&records));
    let third: Vec<u64> = (1..=20).map(|n| n * 3).collect();
    let by_key = Query {
        key: Some("order:7".to_owned()),
        ..Query::default()
    };
    let by_trace = Query {
        trace: Some(trace(1)),
        ..Query::default()
    };
    assert_eq!(numbers(journal, by_key).await, third);
    assert_eq!(numbers(journal, by_trace).await, third);
}

fn open(path: &Path) -> Arc<dyn Journal> {
    Arc::new(SqliteJournal::open(path).expect("a journal"))
}

#[test]
fn tables_of_an_older_version_are_upgraded_with_all_they_have() {
    for older in [vec![TO_VERSION_2], vec![TO_VERSION_2, TO_VERSION_1]] {
        play(async {
            let schema = Schema::new();
            let indexes = || {
                let sql = "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() \
                           ORDER BY 1";
                schema.sql(sql)
            };
            let journal: Arc<dyn Journal> = Arc::new(connect(&schema.url()).await);
            load(&journal, &records()[..40]).await;
            let newest = indexes();
            for step in older {
                schema.sql(step);
            }
            assert_ne!(indexes(), newest);
            let journal: Arc<dyn Journal> = Arc::new(connect(&schema.url()).await);
            assert_eq!(indexes(), newest);
            is_whole(&journal).await;
        });
    }
}

/// So many records, however old.
fn keep(count: u64) -> Keep {
    Keep {
        age: None,
        count: Some(count),
        minutes: None,
        at_once: true,
    }
}

/// A journal that runs refuses to write and to remove, in words that say why.
async fn refuses(journal: &Arc<dyn Journal>) {
    let loaded = journal.load(vec![batch(&many(5))]).await;
    let pruned = journal.prune(keep(1), Timestamp::MAX).await.map(drop);
    for refused in [loaded, pruned] {
        let error = refused.expect_err("it is a newer duly's");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("newer duly"), "{error}");
        assert!(error.to_string().contains("start the newer one"), "{error}");
    }
}

#[test]
fn a_file_that_a_newer_duly_has_upgraded_is_left_alone_by_an_older_one_that_runs() {
    play(async {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal.db");
        let journal = open(&path);
        load(&journal, &many(3)).await;
        let file = Connection::open(&path).expect("the file");
        file.execute_batch("PRAGMA user_version = 99")
            .expect("a format");
        refuses(&journal).await;
        file.execute_batch("PRAGMA user_version = 7")
            .expect("a format");
        assert_eq!(everything(&journal).await, many(3));
        load(&journal, &many(5)).await;
    });
}

#[test]
fn tables_that_a_newer_duly_has_upgraded_are_left_alone_by_an_older_one_that_runs() {
    play(async {
        let schema = Schema::new();
        let journal: Arc<dyn Journal> = Arc::new(connect(&schema.url()).await);
        load(&journal, &many(3)).await;
        // A connection for this too: a new one would be refused as such.
        let keep = keep(1_000);
        journal.prune(keep, Timestamp::MAX).await.expect("a step");
        schema.sql("INSERT INTO versions (version) VALUES (99)");
        refuses(&journal).await;
        schema.sql("DELETE FROM versions WHERE version = 99");
        assert_eq!(everything(&journal).await, many(3));
        load(&journal, &many(5)).await;
    });
}
