//! Queues of which nothing is kept any more leave nothing in the file of a journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use duly::journal::{Journal, Keep, SqliteJournal};
use duly::records::Numbered;
use duly::time::Timestamp;
use rusqlite::Connection;

use crate::journal::harness::play;
use crate::journal::sample::{everything, load, minutes, queue, record, with};

const TENTH_US: u64 = 100_000;
const MINUTE_US: u64 = 60_000_000;

/// What the file says of queues, and must not.
const WRONG: [&str; 4] = [
    // A name that nothing has.
    "SELECT number FROM queues WHERE number NOT IN (SELECT queue FROM records \
       UNION ALL SELECT queue FROM minutes UNION ALL SELECT of_queue FROM tenths)",
    // A number without a name.
    "SELECT queue FROM (SELECT queue FROM records UNION SELECT queue FROM minutes \
       UNION SELECT queue FROM lateness UNION SELECT of_queue FROM tenths) \
     WHERE queue NOT IN (SELECT number FROM queues)",
    // A tenth of a second before that of the last record that went, without a record.
    "SELECT of_queue FROM tenths WHERE tenth < ?1 AND NOT EXISTS (SELECT 1 FROM records \
       WHERE queue = of_queue AND finished / 100000 = tenth)",
    // Lateness of a minute that is not counted.
    "SELECT queue FROM lateness WHERE NOT EXISTS (SELECT 1 FROM minutes \
       WHERE minutes.minute = lateness.minute AND minutes.queue = lateness.queue)",
];

fn check(file: &Connection, gone_us: u64) {
    for sql in WRONG {
        let mut statement = file.prepare(sql).expect("a statement");
        let tenth = (gone_us / TENTH_US).cast_signed();
        let values = [tenth];
        let values = &values[..statement.parameter_count()];
        let found = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(0));
        let found: Result<Vec<i64>, _> = found.expect("rows").collect();
        assert_eq!(found.expect("rows"), [0; 0], "{sql}");
    }
}

/// Retention of records and of counts, the one longer or the other.
fn keep(random: &mut fastrand::Rng) -> Keep {
    let age = || Some(std::time::Duration::from_secs(1));
    let minute = std::time::Duration::from_secs(60);
    Keep {
        age: random.bool().then(age).flatten(),
        count: Some(random.u64(0..100)),
        minutes: Some(minute * random.u32(1..5)),
        at_once: true,
    }
}

/// Names that are used for a while beside one that stays, by two processes in turn.
#[test]
#[allow(clippy::print_stdout)] // it tells which seed to run again
fn a_queue_leaves_the_file_with_the_last_that_it_says_of_it() {
    let seed = std::env::var("DULY_JOURNAL_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("a number"),
    );
    println!("DULY_JOURNAL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..8 {
        play(retire(&mut random));
    }
}

async fn retire(random: &mut fastrand::Rng) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal.db");
    let open = || -> Arc<dyn Journal> { Arc::new(SqliteJournal::open(&path).expect("a journal")) };
    let journals = [open(), open()];
    let file = Connection::open(&path).expect("the file");
    let (keep, has_busy) = (keep(random), random.bool());
    let (mut number, mut at_us, mut names) = (0, 0, 0);
    let mut all: BTreeMap<u64, Numbered> = BTreeMap::new();
    for _ in 0..40 {
        let mut records = Vec::new();
        for _ in 0..random.u64(1..40) {
            at_us += match random.u8(..) {
                0..5 => MINUTE_US,
                5..40 => random.u64(1..2 * TENTH_US),
                _ => random.u64(1..2_000),
            };
            number += 1;
            names += random.u64(0..8) / 7;
            let name = if has_busy && random.bool() {
                "work".to_owned()
            } else {
                format!("queue-{names}")
            };
            records.push(with(record(number, at_us), |it| it.queue = queue(&name)));
        }
        all.extend(
            records
                .iter()
                .map(|it| (it.1.stages.finished_us, it.clone())),
        );
        load(&journals[random.usize(0..2)], &records).await;
        let now = Timestamp::from_micros_up(records[records.len() - 1].1.stages.finished_us);
        let journal = &journals[random.usize(0..2)];
        while journal.prune(keep, now).await.expect("a step").more {}
        // Each reader has read names before.
        for journal in &journals {
            let left = everything(journal).await;
            let first_us = left.first().map_or(u64::MAX, |it| it.1.stages.finished_us);
            let expected: Vec<_> = all.range(first_us..).map(|(_, it)| it.clone()).collect();
            assert_eq!(left, expected);
            let minutes = minutes(journal).await;
            assert!(left.is_empty() || !minutes.is_empty());
            let gone = all.range(..first_us).next_back();
            check(&file, gone.map_or(0, |(finished_us, _)| *finished_us));
        }
    }
    // What is left when nothing of all that is kept any more.
    at_us += 10 * MINUTE_US;
    for at_us in [at_us, at_us + 2 * TENTH_US, at_us + 10 * MINUTE_US] {
        number += 1;
        load(&journals[0], &[record(number, at_us)]).await;
        let now = Timestamp::from_micros_up(crate::journal::sample::START_US + at_us);
        let none = Keep {
            count: Some(1),
            ..keep
        };
        while journals[1].prune(none, now).await.expect("a step").more {}
    }
    let names = "SELECT count(*) FROM queues";
    let names: i64 = file
        .query_row(names, [], |row| row.get(0))
        .expect("a count");
    assert_eq!(names, 1);
}
