//! The views `history` and `tasks`, as another tool reads them.

use std::path::PathBuf;
use std::sync::Arc;

use duly::EventId;
use duly::event::{BucketId, Payload};
use duly::journal::{Journal, SqliteJournal};
use duly::records::{Cause, NodeId, Numbered, Outcome};
use duly::time::Timestamp;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::journal::harness::play;
use crate::journal::sample::{id, load, queue, record, trace, with};

/// A journal with these records in it, opened by somebody else.
fn read(records: &[Numbered], then: impl FnOnce(&Connection)) {
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("journal.db");
    play(async {
        let journal: Arc<dyn Journal> = Arc::new(SqliteJournal::open(&path).expect("a journal"));
        load(&journal, records).await;
    });
    then(&Connection::open(&path).expect("the file"));
}

fn column(file: &Connection, sql: &str) -> Vec<Value> {
    let mut statement = file.prepare(sql).expect(sql);
    let rows = statement.query_map([], |row| row.get(0)).expect(sql);
    rows.collect::<Result<_, _>>().expect(sql)
}

fn texts(file: &Connection, sql: &str) -> Vec<Option<String>> {
    let mut statement = file.prepare(sql).expect(sql);
    let rows = statement.query_map([], |row| row.get(0)).expect(sql);
    rows.collect::<Result<_, _>>().expect(sql)
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

/// The views join the names, which a file from before an outcome lacks.
#[test]
fn a_file_from_before_an_outcome_learns_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("journal.db");
    let interrupted = with(record(1, 1), |it| it.outcome = Outcome::Interrupted);
    play(async {
        let journal: Arc<dyn Journal> = Arc::new(SqliteJournal::open(&path).expect("a journal"));
        load(&journal, &[interrupted]).await;
    });
    let sql = "SELECT outcome FROM history";
    let file = Connection::open(&path).expect("the file");
    let forgets = file.execute("DELETE FROM outcomes WHERE name = 'interrupted'", []);
    assert_eq!(forgets.expect("a name"), 1);
    assert_eq!(texts(&file, sql), []);
    drop(file);
    drop(SqliteJournal::open(&path).expect("the journal"));
    let file = Connection::open(&path).expect("the file");
    assert_eq!(texts(&file, sql), some(&["interrupted"]));
}

#[test]
fn ids_are_written_as_everywhere_else() {
    let bits: [u128; 7] = [
        0,
        u128::MAX,
        1,
        1 << 127,
        0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210,
        0xF0F0_F0F0_F0F0_F0F0_0F0F_0F0F_0F0F_0F0F,
        u128::from_be_bytes(id(77).to_bytes()),
    ];
    let records: Vec<_> = bits
        .into_iter()
        .zip(1..)
        .map(|(bits, number)| {
            with(record(number, number), |it| {
                it.id = EventId::from_bytes(bits.to_be_bytes());
            })
        })
        .collect();
    read(&records, |file| {
        let expected = records.iter().map(|(_, it)| Some(it.id.to_string()));
        let expected: Vec<_> = expected.collect();
        assert_eq!(
            texts(file, "SELECT id FROM history ORDER BY number"),
            expected
        );
        assert_eq!(
            texts(file, "SELECT id FROM tasks ORDER BY modified"),
            expected
        );
    });
}

#[test]
fn history_has_readable_columns() {
    let full = with(record(1, 1_234_567), |it| {
        it.key = Some("order:7".to_owned());
        it.attempt = 3;
        it.outcome = Outcome::Buried;
        it.cause = Some(Cause::TimedOut);
        it.node = NodeId(0xF00D_0000_0000_0001);
        it.error = Some("too slow".to_owned());
        it.trace = Some(trace(1));
        it.payload = Some(Payload::from(&b"{\"order\":7}"[..]));
        it.by = Some("ops".to_owned());
    });
    let empty = with(record(2, 2_000_000), |it| {
        it.outcome = Outcome::Cancelled;
        it.node = NodeId(0);
        it.stages.moved_us = 0;
        it.stages.fetched_us = 0;
        it.stages.started_us = 0;
        it.payload = Some(Payload::from(&b"\xFF"[..]));
    });
    read(&[full, empty], |file| {
        let of = |column: &str| {
            texts(
                file,
                &format!("SELECT CAST({column} AS TEXT) FROM history ORDER BY number"),
            )
        };
        // The start is 2023-11-14T22:14:00Z.
        assert_eq!(
            of("finished"),
            some(&["2023-11-14T22:14:01.234567Z", "2023-11-14T22:14:02.000000Z",])
        );
        assert_eq!(
            of("started"),
            [Some("2023-11-14T22:14:01.233567Z".to_owned()), None]
        );
        assert_eq!(
            of("due"),
            some(&["2023-11-14T22:14:01.232Z", "2023-11-14T22:14:01.998Z"])
        );
        assert_eq!(of("late_us"), [Some("1567".to_owned()), None]);
        assert_eq!(of("outcome"), some(&["buried", "cancelled"]));
        assert_eq!(of("cause"), [Some("timed_out".to_owned()), None]);
        assert_eq!(of("node"), [Some("f00d000000000001".to_owned()), None]);
        assert_eq!(of("trace"), [Some(trace(1).to_string()), None]);
        assert_eq!(of("payload"), [Some("{\"order\":7}".to_owned()), None]);
        assert_eq!(of("queue"), some(&["orders", "orders"]));
        assert_eq!(of("key"), [Some("order:7".to_owned()), None]);
        assert_eq!(of("attempt"), some(&["3", "1"]));
        assert_eq!(of("error"), [Some("too slow".to_owned()), None]);
        assert_eq!(of("by"), [Some("ops".to_owned()), None]);
    });
}

#[test]
fn every_outcome_and_cause_has_its_name() {
    let outcomes = Outcome::ALL.into_iter().zip(1..);
    let mut records: Vec<_> = outcomes
        .map(|(outcome, n)| with(record(n, n), |it| it.outcome = outcome))
        .collect();
    let causes = Cause::ALL.into_iter().zip(100..);
    records.extend(causes.map(|(cause, n)| with(record(n, n), |it| it.cause = Some(cause))));
    read(&records, |file| {
        let named = texts(
            file,
            "SELECT outcome FROM history WHERE number < 100 ORDER BY number",
        );
        assert_eq!(named, some(&Outcome::ALL.map(Outcome::as_str)));
        let named = texts(
            file,
            "SELECT cause FROM history WHERE number >= 100 ORDER BY number",
        );
        assert_eq!(named, some(&Cause::ALL.map(Cause::as_str)));
    });
}

#[test]
fn a_task_is_an_event_as_its_last_record_tells() {
    let event = EventId::from_parts(Timestamp::from_millis(1_699_999_999_001), BucketId(1), 1);
    let of = |number: u64, outcome: Outcome| {
        with(record(number, number * 1_000_000), |it| {
            it.id = event;
            it.key = Some("order:7".to_owned());
            it.outcome = outcome;
            it.payload = Some(Payload::from(format!("{{\"n\":{number}}}").into_bytes()));
        })
    };
    // Loaded in another order than they happened.
    let records = [
        of(3, Outcome::Acked),
        of(1, Outcome::Retried),
        of(2, Outcome::Snoozed),
        // Another queue may have an event under the same id.
        with(record(9, 9), |it| (it.id, it.queue) = (event, queue("sms"))),
    ];
    read(&records, |file| {
        let of = |column: &str| {
            texts(
                file,
                &format!("SELECT {column} FROM tasks WHERE business_type = 'orders'"),
            )
        };
        assert_eq!(of("id"), some(&[&event.to_string()]));
        assert_eq!(of("created"), some(&["2023-11-14T22:13:19.001Z"]));
        assert_eq!(of("modified"), some(&["2023-11-14T22:14:03.000000Z"]));
        assert_eq!(of("business_id"), some(&["order:7"]));
        assert_eq!(of("status"), some(&["processed"]));
        assert_eq!(of("action_time"), some(&["2023-11-14T22:14:02.998Z"]));
        assert_eq!(of("attributes"), some(&["{\"n\":3}"]));
        let blob = Value::Blob(event.to_bytes().to_vec());
        assert_eq!(
            column(
                file,
                "SELECT event FROM tasks WHERE business_type = 'orders'"
            ),
            [blob]
        );
        assert_eq!(
            column(file, "SELECT count(*) FROM tasks"),
            [Value::Integer(2)]
        );
        assert_eq!(
            texts(
                file,
                "SELECT attributes FROM tasks WHERE business_type = 'sms'"
            ),
            [None]
        );
    });
}

#[test]
fn the_status_of_a_task_follows_from_its_last_outcome() {
    let records: Vec<_> = Outcome::ALL
        .into_iter()
        .zip(1..)
        .map(|(outcome, n)| with(record(n, n), |it| it.outcome = outcome))
        .collect();
    read(&records, |file| {
        let found = texts(file, "SELECT status FROM tasks ORDER BY modified");
        let expected: Vec<_> = Outcome::ALL
            .into_iter()
            .map(|outcome| match outcome {
                Outcome::Acked => "processed",
                Outcome::Cancelled | Outcome::Expired | Outcome::Discarded | Outcome::Dropped => {
                    "cancelled"
                }
                _ => "pending",
            })
            .collect();
        assert_eq!(found, some(&expected));
    });
}

#[test]
fn a_task_is_found_by_its_event_queue_and_key_through_an_index() {
    read(&[record(1, 1)], |file| {
        let plan = |filter: &str| {
            let sql = format!("EXPLAIN QUERY PLAN SELECT * FROM tasks WHERE {filter}");
            let mut statement = file.prepare(&sql).expect("a statement");
            let lines = statement.query_map([], |row| row.get::<_, String>(3));
            let lines: Result<Vec<_>, _> = lines.expect("a plan").collect();
            lines.expect("a plan").join("\n")
        };
        let by_event = plan("event = x'0102'");
        assert!(
            by_event.contains("records USING INDEX by_event"),
            "{by_event}"
        );
        let by_type = plan("business_type = 'orders'");
        assert!(
            by_type.contains("tenths USING PRIMARY KEY (of_queue=?)")
                && by_type.contains("records USING PRIMARY KEY (finished>? AND finished<?)"),
            "{by_type}"
        );
        let by_key = plan("business_id = 'order:7'");
        assert!(by_key.contains("records USING INDEX by_key"), "{by_key}");
    });
}

#[test]
fn the_examples_of_the_guide_run() {
    let examples = crate::journal::guide::examples("## The SQLite journal");
    assert!(examples.len() >= 3);
    read(&[record(1, 1)], |file| {
        for sql in examples {
            let mut statement = file.prepare(sql).expect(sql);
            let rows = statement.query_map([], |_| Ok(())).expect(sql);
            rows.collect::<Result<Vec<()>, _>>().expect(sql);
        }
    });
}
