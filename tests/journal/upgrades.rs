//! What a newer or an older duly has written is left alone.

use std::path::Path;
use std::sync::Arc;

use duly::ErrorKind;
use duly::journal::{Journal, Keep, PostgresJournal, SqliteJournal};
use duly::time::Timestamp;
use rusqlite::Connection;

use crate::journal::harness::play;
use crate::journal::postgres::{Schema, connect};
use crate::journal::sample::{batch, everything, load, many};

fn open(path: &Path) -> Arc<dyn Journal> {
    Arc::new(SqliteJournal::open(path).expect("a journal"))
}

/// Nothing of it was released, so nobody has to read it; but nothing of it is misread either.
#[test]
fn tables_of_an_older_version_are_refused_and_left_as_they_are() {
    play(async {
        let schema = Schema::new();
        drop(connect(&schema.url()).await);
        for version in [0, 1, 3] {
            schema.sql("DELETE FROM versions");
            if version > 0 {
                schema.sql(&format!(
                    "INSERT INTO versions (version) VALUES ({version})"
                ));
            }
            let refused = PostgresJournal::connect(&schema.url()).await;
            let error = refused.map(drop).expect_err("it is an older duly's");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            let words = format!("older duly (version {version}), this one knows 4");
            assert!(error.to_string().contains(&words), "{error}");
            assert!(error.to_string().contains("name another schema"), "{error}");
        }
        let versions = "SELECT string_agg(version::text, ' ') FROM versions";
        assert_eq!(schema.sql(versions), "3");
    });
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
