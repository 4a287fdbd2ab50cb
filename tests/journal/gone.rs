//! A journal's file that is deleted or replaced while it is open, and SQLite's locks on it.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;

use duly::ErrorKind;
use duly::journal::{Journal, SqliteJournal};

use crate::journal::harness::play;
use crate::journal::sample::{batch, everything, load, many};

const LOOKS: &str = "DULY_JOURNAL_LOOKS_AT";

/// The store removes what is confirmed: it must not be in a file that nobody finds again.
#[test]
fn what_is_loaded_into_a_file_that_is_gone_is_not_confirmed() {
    play(async {
        for (suffix, is_replaced) in [("", false), ("-wal", false), ("", true)] {
            let place = tempfile::tempdir().expect("a directory");
            let path = place.path().join("journal.db");
            let journal = SqliteJournal::open(&path).expect("a journal");
            let journal: Arc<dyn Journal> = Arc::new(journal);
            load(&journal, &many(5)).await;
            let victim = place.path().join(format!("journal.db{suffix}"));
            fs::rename(&victim, place.path().join("away")).expect("a file");
            if is_replaced {
                fs::copy(place.path().join("away"), &victim).expect("a copy");
            }
            let loaded = journal.load(vec![batch(&many(6))]).await;
            let error = loaded.expect_err("nobody finds it again");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("while it was open"), "{error}");
        }
    });
}

/// Descriptors that are closed take SQLite's locks of the whole process with them: then another
/// process takes the log away while it is written.
#[test]
fn a_second_open_takes_no_lock_of_the_first() {
    play(async {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("journal.db");
        let open =
            || -> Arc<dyn Journal> { Arc::new(SqliteJournal::open(&path).expect("a journal")) };
        let journal = open();
        load(&journal, &many(5)).await;
        drop(open());
        let other = Command::new(std::env::current_exe().expect("the test binary"))
            .args(["journal::gone::looks", "--exact", "--test-threads=1"])
            .env(LOOKS, &path)
            .stdout(Stdio::null())
            .status();
        assert!(other.expect("a child").success());
        assert!(place.path().join("journal.db-wal").exists());
        load(&journal, &many(9)).await;
        assert_eq!(everything(&open()).await.len(), 9);
    });
}

#[test]
fn looks() {
    let Some(path) = std::env::var_os(LOOKS) else {
        return;
    };
    let file = rusqlite::Connection::open(path).expect("the file");
    let count = file.query_row("SELECT count(*) FROM records", [], |row| {
        row.get::<_, i64>(0)
    });
    assert_eq!(count.expect("a count"), 5);
}
