//! The parts of a journal in a file, through which keys and traces are found.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use duly::journal::{Journal, Keep, SqliteJournal};
use duly::records::{Numbered, Order, Query};
use duly::time::Timestamp;
use rusqlite::Connection;

use crate::journal::harness::play;
use crate::journal::sample::{everything, load, numbers, queue, record, sorted, trace, with};

/// How many records a part has before the next one begins.
const FULL: u64 = 500_000;

struct Place {
    directory: tempfile::TempDir,
    journal: Arc<dyn Journal>,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let journal = SqliteJournal::open(path(directory.path())).expect("a journal");
        Self {
            journal: Arc::new(journal),
            directory,
        }
    }

    fn file(&self) -> Connection {
        Connection::open(path(self.directory.path())).expect("the file")
    }

    /// The parts and how many records each has.
    fn parts(&self) -> Vec<(u32, u32)> {
        let file = self.file();
        let sql = "SELECT number, records FROM parts ORDER BY number";
        let mut statement = file.prepare(sql).expect("a statement");
        let parts = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        let parts: Result<Vec<_>, _> = parts.expect("parts").collect();
        parts.expect("parts")
    }

    /// As if each part had so many records more than it has.
    fn add_to_parts(&self, more: i64) {
        let sql = format!("UPDATE parts SET records = records + {more}");
        self.file().execute_batch(&sql).expect("the file");
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join("journal.db")
}

/// Records of one key and trace. Those of each load lie between those of the others in time.
fn of_load(load: u64) -> Vec<Numbered> {
    let records = (0..50).map(|n| {
        with(record(load * 1_000 + n, n * 30 + load * 10), |it| {
            it.key = Some("order:7".to_owned());
            it.trace = Some(trace(1));
        })
    });
    records.collect()
}

#[test]
fn keys_and_traces_are_found_in_every_part_in_order() {
    play(async {
        let place = Place::new();
        for part in 0..3 {
            load(&place.journal, &of_load(part)).await;
            place.add_to_parts(FULL as i64);
        }
        let parts: Vec<u32> = place.parts().iter().map(|part| part.0).collect();
        assert_eq!(parts, [0, 1, 2]);
        let all = sorted(&[of_load(0), of_load(1), of_load(2)].concat());
        let mut expected: Vec<u64> = all.iter().map(|(number, _)| *number).collect();
        for order in [Order::Oldest, Order::Newest] {
            for by_key in [true, false] {
                let query = Query {
                    key: by_key.then(|| "order:7".to_owned()),
                    trace: (!by_key).then(|| trace(1)),
                    order,
                    limit: Some(7),
                    ..Query::default()
                };
                assert_eq!(numbers(&place.journal, query).await, expected);
            }
            expected.reverse();
        }
        let count = |from: &str| {
            let sql = format!("SELECT count(*) FROM {from}");
            let count = place.file().query_row(&sql, [], |row| row.get::<_, u32>(0));
            count.expect("a number")
        };
        assert_eq!(count("history"), 150);
        assert_eq!(count("history WHERE key = 'order:7'"), 150);
        assert_eq!(count("tasks WHERE business_id = 'order:7'"), 150);
        // What is there already stays where it is.
        load(&place.journal, &of_load(0)).await;
        assert_eq!(everything(&place.journal).await, all);
    });
}

#[test]
fn a_part_is_forgotten_once_its_records_are_gone() {
    play(async {
        let place = Place::new();
        for part in 0..3 {
            load(&place.journal, &of_load(part)).await;
            place.add_to_parts(FULL as i64);
        }
        place
            .file()
            .execute_batch(
                "UPDATE parts SET records = \
             (SELECT count(*) FROM records WHERE records.part = parts.number)",
            )
            .expect("the file");
        let keep = |count| Keep {
            age: None,
            count: Some(count),
            minutes: None,
            at_once: true,
        };
        let prune = async |count| {
            let pruned = place.journal.prune(keep(count), Timestamp::EPOCH).await;
            pruned.expect("a step").records
        };
        assert_eq!(prune(4).await, 146);
        assert_eq!(place.parts(), [(0, 1), (1, 1), (2, 2)]);
        let by_key = Query {
            key: Some("order:7".to_owned()),
            ..Query::default()
        };
        let found = numbers(&place.journal, by_key.clone()).await;
        assert_eq!(found, [2_048, 49, 1_049, 2_049]);
        assert_eq!(prune(2).await, 2);
        assert_eq!(place.parts(), [(1, 1), (2, 1)]);
        assert_eq!(numbers(&place.journal, by_key).await, [1_049, 2_049]);
        // The last one stays, for what comes.
        assert_eq!(prune(0).await, 2);
        assert_eq!(place.parts(), [(2, 0)]);
        load(&place.journal, &of_load(3)).await;
        assert_eq!(place.parts(), [(2, 50)]);
        assert_eq!(everything(&place.journal).await, of_load(3));
    });
}

/// Queues and tenths of a second, of which a file says that they have records.
fn tenths(file: &Connection) -> Vec<(u64, u64)> {
    let sql = "SELECT of_queue, tenth FROM tenths ORDER BY of_queue, tenth";
    let mut statement = file.prepare(sql).expect("a statement");
    let tenths = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
    let tenths = tenths.expect("tenths").map(|tenth| {
        let (queue, tenth) = tenth.expect("a tenth");
        (queue.unsigned_abs(), tenth.unsigned_abs())
    });
    tenths.collect()
}

#[test]
fn tenths_of_a_second_go_with_the_records_that_they_lead_to() {
    play(async {
        let place = Place::new();
        // Three queues in turn, 20 records in each tenth of a second.
        let records: Vec<_> = (1..=3_000)
            .map(|n| {
                with(record(n, n * 5_000 - 5_000), |it| {
                    it.queue = queue(["a", "b", "c"][n as usize % 3]);
                })
            })
            .collect();
        load(&place.journal, &records).await;
        let said = |from: usize| -> Vec<(u64, u64)> {
            let of = |it: &Numbered| it.1.stages.finished_us / 100_000;
            let all = records[from..].iter().map(of);
            let all: std::collections::BTreeSet<u64> = all.collect();
            (1..=3)
                .flat_map(|queue| all.iter().map(move |tenth| (queue, *tenth)))
                .collect()
        };
        assert_eq!(tenths(&place.file()), said(0));
        for kept in [2_345_usize, 110] {
            let keep = Keep {
                age: None,
                count: Some(kept as u64),
                minutes: None,
                at_once: true,
            };
            let now = Timestamp::from_micros_up(records[2_999].1.stages.finished_us);
            while place.journal.prune(keep, now).await.expect("a step").more {}
            assert_eq!(tenths(&place.file()), said(3_000 - kept));
            for name in ["a", "b", "c"] {
                let of_queue = Query {
                    queue: Some(queue(name)),
                    ..Query::default()
                };
                let kept = records[3_000 - kept..].iter();
                let kept = kept.filter(|it| it.1.queue == queue(name));
                let expected: Vec<u64> = kept.map(|it| it.0).collect();
                assert_eq!(numbers(&place.journal, of_queue).await, expected, "{name}");
            }
        }
    });
}
