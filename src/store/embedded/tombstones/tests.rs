use super::*;
use crate::event::{BucketId, EventId, QueueName, State};
use crate::store::embedded::schema;

const NOW: Timestamp = Timestamp::from_millis(9_000_000);

fn bucket(number: u64) -> BucketKey {
    let queue = QueueName::new(&format!("queue-{number}")).expect("a legal name");
    BucketKey::new(queue, BucketId(0))
}

fn made(number: u64) -> Timestamp {
    Timestamp::from_millis(1 + number * 7_919 % 100_003)
}

fn ended(number: u64, entropy: u64) -> WindowChange {
    let id = EventId::from_parts(made(number), BucketId(0), entropy);
    WindowChange {
        bucket: Some(bucket(number)),
        ended: vec![Tombstone {
            id,
            state: State::Done,
            fingerprint: None,
            due: NOW,
            tries: 0,
            maybe_running: false,
            settled: None,
            ended_us: NOW.as_micros(),
        }],
        ..WindowChange::default()
    }
}

fn dropped(number: u64) -> WindowChange {
    WindowChange {
        bucket: Some(bucket(number)),
        dropped: 1,
        until: Some(made(number)),
        ..WindowChange::default()
    }
}

/// A file, and what its writer knows of it.
struct Side {
    connection: Connection,
    rows: TombstoneRows,
}

impl Side {
    fn new() -> Self {
        let connection = Connection::open_in_memory().expect("a file");
        schema::loose(&connection).expect("its tables");
        Self {
            connection,
            rows: TombstoneRows::default(),
        }
    }

    fn write(&mut self, window: WindowChange) {
        self.write_at(NOW, window);
    }

    /// Returns what every bucket is raised to.
    fn write_at(&mut self, now: Timestamp, window: WindowChange) -> Option<Timestamp> {
        let changes = Changes {
            window: Some(Box::new(window)),
            ..Changes::default()
        };
        let written = self
            .rows
            .write(&self.connection, [changes].iter(), now)
            .expect("a write");
        let raised = written.raised;
        self.rows.committed(written);
        raised
    }

    fn count(&self) -> i64 {
        let sql = "SELECT count(*) FROM tombstones";
        let count = self.connection.query_row(sql, [], |row| row.get(0));
        count.expect("a count")
    }

    /// What another process reads.
    fn read(&self) -> (TombstoneRows, WindowLog) {
        let mut seen = WindowLog::default();
        let (rows, damaged) =
            TombstoneRows::read(&self.connection, NOW, &mut seen).expect("the rows");
        assert_eq!(damaged, 0);
        (rows, seen)
    }
}

#[derive(Debug, Default)]
struct WindowLog {
    known: Vec<(BucketKey, EventId)>,
    all: Option<Timestamp>,
    alone: BTreeMap<BucketKey, Timestamp>,
    ahead: BTreeMap<BucketKey, Timestamp>,
}

impl Windows for WindowLog {
    fn tombstone(&mut self, bucket: &BucketKey, tombstone: Tombstone) -> bool {
        self.known.push((bucket.clone(), tombstone.id));
        true
    }

    fn watermark(&mut self, bucket: Option<&BucketKey>, until: Timestamp) {
        match bucket {
            Some(bucket) => _ = self.alone.insert(bucket.clone(), until),
            None => self.all = self.all.max(Some(until)),
        }
    }

    fn watermark_ahead(&mut self, bucket: &BucketKey, until: Timestamp) {
        let before = self.ahead.insert(bucket.clone(), until);
        assert_eq!(before, None, "of {bucket}");
    }
}

#[test]
fn names_that_are_not_used_any_more_leave_a_bounded_number_of_rows_and_no_watermark_lower() {
    let mut side = Side::new();
    let many = 4 * EMPTY_MAX as u64;
    for number in 0..many {
        side.write(ended(number, 1));
        side.write(dropped(number));
        assert!(side.rows.buckets.len() <= EMPTY_MAX + 2);
        assert!(side.rows.drops.len() <= EMPTY_MAX + 3);
    }
    // What may go is removed some rows at a time.
    for number in 0..8 {
        side.write(ended(number, 2));
    }
    let rows = side.count();
    assert!(rows <= EMPTY_MAX as i64 + 16, "{rows} rows");
    for restarted in [false, true] {
        let (rows, seen) = side.read();
        for number in 0..many {
            let until = seen.alone.get(&bucket(number)).copied().max(seen.all);
            assert!(until >= Some(made(number)), "{number}, again {restarted}");
        }
        // A bucket that was forgotten and is used again has its tombstones.
        let known = seen.known.len();
        assert_eq!(known, 8, "again {restarted}");
        side.rows = rows;
    }
    for number in 0..8 {
        side.write(dropped(number));
    }
    let (_, seen) = side.read();
    assert_eq!(seen.known, []);
}

#[test]
fn of_a_row_that_was_dropped_in_part_the_rest_comes_back() {
    let mut side = Side::new();
    let one = |entropy| ended(3, entropy).ended.remove(0);
    let many = WindowChange {
        bucket: Some(bucket(3)),
        ended: (1..=5).map(one).collect(),
        ..WindowChange::default()
    };
    side.write(many);
    side.write(dropped(3));
    side.write(dropped(3));
    let (_, seen) = side.read();
    let left: Vec<_> = seen.known.into_iter().map(|(_, id)| id).collect();
    let expected: Vec<_> = (3..=5).map(|entropy| one(entropy).id).collect();
    assert_eq!(left, expected);
}

/// As it is where the clock was ahead, and was set back.
#[test]
fn no_watermark_of_every_bucket_is_later_than_now() {
    let mut side = Side::new();
    let later = NOW + std::time::Duration::from_secs(50);
    for number in 0..2 * EMPTY_MAX as u64 {
        side.write(ended(number, 1));
        side.write(WindowChange {
            until: Some(later),
            ..dropped(number)
        });
    }
    let (_, seen) = side.read();
    assert!(seen.all.is_some_and(|all| all < NOW), "{:?}", seen.all);
}

/// What is said last counts: a clock was far ahead when what was dropped before was noted.
#[test]
fn the_last_watermark_of_ids_to_come_is_read_unless_its_time_has_come() {
    let mut side = Side::new();
    let at = |secs| Some(NOW + std::time::Duration::from_secs(secs));
    let marks = [
        (1, vec![at(3_600), at(50)], at(50)),
        (2, vec![at(20), at(50)], at(50)),
        (3, vec![at(3_600), Some(NOW)], None),
        (4, vec![None], None),
    ];
    for (number, all, _) in &marks {
        for (entropy, ahead) in all.iter().enumerate() {
            side.write(ended(*number, entropy as u64));
            side.write(ended(*number, 9 + entropy as u64)); // so that no row goes
            side.write(WindowChange {
                ahead: *ahead,
                ..dropped(*number)
            });
        }
    }
    let (_, seen) = side.read();
    for (number, _, expected) in &marks {
        let found = seen.ahead.get(&bucket(*number)).copied();
        assert_eq!(found, *expected, "of bucket {number}");
    }
}

/// That of every bucket would close each of them.
#[test]
fn a_watermark_of_ids_to_come_stays_however_many_buckets_go() {
    let mut side = Side::new();
    let ahead = NOW + std::time::Duration::from_secs(50);
    for number in 0..2 * EMPTY_MAX as u64 {
        side.write(ended(number, 1));
        side.write(WindowChange {
            ahead: (number == 0).then_some(ahead),
            ..dropped(number)
        });
    }
    let (_, seen) = side.read();
    assert_eq!(seen.ahead, BTreeMap::from([(bucket(0), ahead)]));
    assert!(side.rows.drops.len() <= EMPTY_MAX + 3);
}

/// Else each of them closes the buckets again in which a push has lowered it since.
#[test]
fn a_watermark_of_every_bucket_from_a_clock_that_was_ahead_is_raised_once() {
    let mut side = Side::new();
    let span = std::time::Duration::from_secs(3_600);
    let mut numbers = 0..4 * EMPTY_MAX as u64;
    let raised = numbers.by_ref().find_map(|number| {
        let window = WindowChange {
            until: Some(NOW + span / 2),
            ..dropped(number)
        };
        let raised = side.write_at(NOW + span, ended(number, 1));
        raised.or_else(|| side.write_at(NOW + span, window))
    });
    assert_eq!(raised, Some(NOW + span / 2));
    let mut again = None;
    for number in numbers {
        for window in [ended(number, 1), dropped(number)] {
            again = again.max(side.write_at(NOW, window));
            assert!(again < Some(NOW), "{number}: {again:?}");
        }
    }
    assert!(again.is_some());
    // Nor does a restart raise what was lowered before the last of them.
    let last = side.rows.until(None);
    assert!(last.is_some_and(|last| last < NOW), "{last:?}");
}
