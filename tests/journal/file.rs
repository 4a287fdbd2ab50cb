//! The journal's file: whose it is, in which version, and who has it open.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use duly::ErrorKind;
use duly::journal::{Journal, SqliteJournal, SqliteOptions};
use duly::records::{Numbered, Order, Query};
use duly::store::EmbeddedStore;

use crate::journal::harness::play;
use crate::journal::sample::{counted, everything, load, many, minutes, page};

/// A place for a journal, gone with it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("journal.db")
    }

    fn open(&self) -> Arc<dyn Journal> {
        Arc::new(SqliteJournal::open(self.path()).expect("a journal"))
    }

    fn error(&self) -> duly::Error {
        SqliteJournal::open(self.path()).expect_err("it cannot be opened")
    }

    fn sql(&self, sql: &str) {
        let file = rusqlite::Connection::open(self.path()).expect("a file");
        file.execute_batch(sql).expect(sql);
    }
}

#[test]
fn a_file_that_is_no_journal_is_refused_and_left_as_it_is() {
    let place = Place::new();
    for times in [1, 40] {
        let text = b"this was somebody's diary, and it shall stay one".repeat(times);
        fs::write(place.path(), &text).expect("a file");
        let error = place.error();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("journal.db"), "{error}");
        assert_eq!(fs::read(place.path()).expect("the file"), text);
    }
}

#[cfg(unix)]
#[test]
fn a_link_in_place_of_the_file_is_refused_and_what_it_leads_to_left_as_it_is() {
    let place = Place::new();
    let other = place.0.path().join("other");
    fs::write(&other, b"").expect("a file");
    std::os::unix::fs::symlink(&other, place.path()).expect("a link");
    let error = place.error();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("it is a link"), "{error}");
    assert_eq!(fs::read(other).expect("the file"), b"");
}

#[test]
fn a_sqlite_file_of_another_program_is_refused_and_left_as_it_is() {
    let place = Place::new();
    place.sql("CREATE TABLE diary (day TEXT); PRAGMA user_version = 1");
    let before = fs::read(place.path()).expect("the file");
    let error = place.error();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("another program"), "{error}");
    assert_eq!(fs::read(place.path()).expect("the file"), before);
}

#[test]
fn a_store_is_no_journal_and_a_journal_is_no_store() {
    let place = Place::new();
    drop(EmbeddedStore::open(place.path()).expect("a store"));
    assert_eq!(place.error().kind(), ErrorKind::Corrupt);
    drop(EmbeddedStore::open(place.path()).expect("the store as it was"));

    let place = Place::new();
    drop(place.open());
    let error = EmbeddedStore::open(place.path()).expect_err("it is no store");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_newer_format_asks_for_an_upgrade() {
    let place = Place::new();
    drop(place.open());
    place.sql("PRAGMA user_version = 8");
    let error = place.error();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    let expected = "newer duly (format 8), this one reads format 7";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("upgrade"), "{text}");
}

#[test]
fn an_older_format_is_refused_in_words() {
    let place = Place::new();
    drop(place.open());
    place.sql("PRAGMA user_version = 6");
    let error = place.error();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    let expected = "older duly (format 6), this one reads format 7";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("name another file"), "{text}");
}

#[test]
fn a_creation_that_was_interrupted_is_done_again() {
    let place = Place::new();
    fs::write(place.path(), b"").expect("an empty file");
    drop(place.open());
    drop(place.open());
}

#[test]
fn a_new_file_can_be_opened_by_many_at_once() {
    for _ in 0..5 {
        let place = Place::new();
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| drop(place.open()));
            }
        });
    }
}

#[cfg(unix)]
#[test]
fn the_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("new/journal.db");
    let journal = SqliteJournal::open_with(&path, SqliteOptions::new().cache_bytes(1 << 20));
    let journal = journal.expect("a journal");
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(journal.path()), 0o600);
    assert_eq!(mode(journal.path().parent().expect("a directory")), 0o700);
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let place = Place::new();
    fs::write(place.path(), b"").expect("a file");
    let error = SqliteJournal::open(place.path().join("journal.db")).expect_err("in a file");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("journal.db"), "{error}");
    let error = SqliteJournal::open("/").expect_err("no file");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// The way of every query: one index, no sorting, no scan of the table but in its own order.
#[test]
fn every_query_is_led_through_one_index_and_sorts_nothing() {
    play(async {
        let place = Place::new();
        let journal = SqliteJournal::open(place.path()).expect("a journal");
        let full = Query {
            id: Some(crate::journal::sample::id(1)),
            trace: Some(crate::journal::sample::trace(1)),
            key: Some("k".to_owned()),
            outcomes: vec![
                duly::records::Outcome::Retried,
                duly::records::Outcome::Buried,
            ],
            cause: Some(duly::records::Cause::Failed),
            error: Some("e".to_owned()),
            node: Some(duly::records::NodeId(1)),
            queue: Some(crate::journal::sample::queue("orders")),
            ..Query::default()
        };
        // Each filter is taken away once it has led the way.
        type Without = fn(&mut Query);
        let ways: [(&str, Without); 8] = [
            ("by_event", |query| query.id = None),
            ("by_trace", |query| query.trace = None),
            ("by_key", |query| query.key = None),
            ("by_queue_outcome", |query| {
                query.outcomes.push(duly::records::Outcome::Acked);
            }),
            ("by_cause", |query| query.cause = None),
            ("by_error", |query| query.error = None),
            ("tenths", |query| query.queue = None),
            ("PRIMARY KEY", |_| {}),
        ];
        for order in [Order::Oldest, Order::Newest] {
            let mut query = Query {
                order,
                ..full.clone()
            };
            for (index, without) in ways {
                let plan = journal.plan(query.clone()).await.expect("a plan");
                let plan = plan.join("; ");
                assert!(
                    plan.contains(index) && !plan.contains("TEMP"),
                    "{index}: {plan}"
                );
                match index {
                    "tenths" => assert_eq!(
                        plan,
                        "SEARCH tenths USING PRIMARY KEY (of_queue=? AND tenth>? AND tenth<?); \
                         SEARCH records USING PRIMARY KEY (finished>? AND finished<?)"
                    ),
                    _ => {
                        let is_one =
                            plan.starts_with("SEARCH records USING") && !plan.contains(';');
                        assert!(is_one, "{index}: {plan}");
                        let is_bound = plan.contains(">(") && plan.contains("<(");
                        assert!(plan.contains("finished") && is_bound, "{index}: {plan}");
                    }
                }
                without(&mut query);
            }
            let only = Query {
                outcomes: vec![duly::records::Outcome::Expired],
                order,
                ..Query::default()
            };
            let plan = journal.plan(only).await.expect("a plan");
            assert!(plan[0].contains("by_outcome (outcome=?"), "{plan:?}");
        }
    });
}

#[test]
fn a_page_looks_at_a_bounded_number_of_rows() {
    play(async {
        let place = Place::new();
        let mut records = many(25_000);
        for (_, record) in &mut records {
            record.error = Some("as always".to_owned());
            record.outcome = duly::records::Outcome::Expired;
        }
        let journal = place.open();
        load(&journal, &records).await;
        let pages = async |mut query: Query| {
            for pages in 1.. {
                let found = page(&journal, query.clone()).await;
                assert_eq!(found.records, []);
                query.after = found.next;
                if found.next.is_none() {
                    return pages;
                }
            }
            unreachable!("there is a last page")
        };
        // By the index of errors, and by the table.
        let by_text = Query {
            error: Some("never".to_owned()),
            ..Query::default()
        };
        assert_eq!(pages(by_text).await, 13);
        let by_table = Query {
            outcomes: vec![
                duly::records::Outcome::Acked,
                duly::records::Outcome::Retried,
            ],
            ..Query::default()
        };
        assert_eq!(pages(by_table).await, 3);
    });
}

const CHILD: &str = "DULY_TEST_JOURNAL";

/// What both processes load, in batches of their own.
fn shared() -> Vec<Numbered> {
    many(6_000)
}

/// Not a test by itself: it is what a child process runs, until it is killed.
#[test]
#[allow(clippy::print_stdout)] // it tells its parent how far it is
fn child() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    play(async move {
        let journal: Arc<dyn Journal> = Arc::new(SqliteJournal::open(path).expect("a journal"));
        for (part, done) in shared().chunks(30).zip(1..) {
            load(&journal, part).await;
            println!("loaded {done}");
        }
    });
}

/// A child that is killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_processes_keep_each_record_once_though_one_is_killed() {
    play(async {
        let place = Place::new();
        let records = shared();
        let mut child = Command::new(std::env::current_exe().expect("the test binary"))
            .args([
                "journal::file::child",
                "--exact",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD, place.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map(Running)
            .expect("a child");
        let lines = BufReader::new(child.0.stdout.take().expect("its output is piped")).lines();
        let journal = place.open();
        let mut parts = records[1_000..5_000].chunks(50);
        let mut answered = 0;
        for line in lines.map_while(Result::ok) {
            if let Some(part) = parts.next() {
                load(&journal, part).await;
            }
            if let Some(done) = line.split("loaded ").nth(1) {
                answered = done.parse::<usize>().expect("a number") * 30;
            }
            if answered >= 1_500 {
                break;
            }
        }
        drop(child);
        assert!(
            answered >= 1_500,
            "the child came to {answered} records only"
        );
        for part in parts {
            load(&journal, part).await;
        }
        let found = everything(&journal).await;
        assert_eq!(found.len(), 5_000.max(found.len()), "some are missing");
        assert!(found == records[..found.len()]);
        assert_eq!(minutes(&journal).await, counted(&found));
        load(&journal, &records).await;
        assert!(everything(&journal).await == records);
        assert_eq!(minutes(&journal).await, counted(&records));
    });
}
