//! Loading records: one transaction for all of them, their counts and their number.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, Transaction};

use crate::error::Result;
use crate::event::QueueName;
use crate::journal::Batch;
use crate::journal::sqlite::paging::number_of;
use crate::journal::sqlite::rows::{self, INSERT};
use crate::journal::sqlite::{fault, parts, schema, words};
use crate::record::{Lateness, MinuteStats, Record};

/// The connection that writes.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Connection,
    /// Numbers of queues by their names; they never change.
    queues: HashMap<QueueName, i64>,
}

/// How many there are by minute, queue, and outcome or slot.
type Counts = BTreeMap<(i64, i64, i64), i64>;

impl Writer {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            connection,
            queues: HashMap::new(),
        }
    }

    /// Takes in records, all of them or none.
    pub(super) fn load(&mut self, batches: &[Batch]) -> Result<()> {
        if batches.iter().all(|batch| batch.records.is_empty()) {
            return Ok(());
        }
        let Self { connection, queues } = self;
        let step = schema::begin(connection)?;
        let loaded = load(step, queues, batches);
        if loaded.is_err() {
            // It may hold numbers that were given and taken back.
            queues.clear();
        }
        loaded.map_err(fault::at_write)
    }
}

fn load(
    load: Transaction<'_>,
    queues: &mut HashMap<QueueName, i64>,
    batches: &[Batch],
) -> rusqlite::Result<()> {
    let part = parts::growing(&load)?;
    let mut new = 0_i64;
    let (mut outcomes, mut late) = (Counts::new(), Counts::new());
    {
        let mut insert = load.prepare_cached(INSERT)?;
        for (number, record) in batches.iter().flat_map(|batch| &batch.records) {
            let queue = match queues.get(&record.queue) {
                Some(queue) => *queue,
                None => number_given(&load, queues, &record.queue)?,
            };
            if rows::insert(&mut insert, *number, record, queue, part)? {
                new += 1;
                count(&mut outcomes, &mut late, record, queue);
            }
        }
    }
    add(
        &load,
        "INSERT INTO minutes (minute, queue, outcome, count) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (minute, queue, outcome) DO UPDATE SET count = count + excluded.count",
        outcomes,
    )?;
    add(
        &load,
        "INSERT INTO lateness (minute, queue, slot, count) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (minute, queue, slot) DO UPDATE SET count = count + excluded.count",
        late,
    )?;
    parts::count(&load, part, new)?;
    load.commit()
}

/// Gives a queue its number, if it has none.
fn number_given(
    load: &Transaction<'_>,
    queues: &mut HashMap<QueueName, i64>,
    name: &QueueName,
) -> rusqlite::Result<i64> {
    load.prepare_cached("INSERT INTO queues (name) VALUES (?1) ON CONFLICT (name) DO NOTHING")?
        .execute([name.as_str()])?;
    let number = number_of(load, name)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    queues.insert(name.clone(), number);
    Ok(number)
}

fn count(outcomes: &mut Counts, late: &mut Counts, record: &Record, queue: i64) {
    let minute = rows::comparable(MinuteStats::of(record).as_millis() / 60_000);
    let outcome = words::of_outcome(record.outcome);
    *outcomes.entry((minute, queue, outcome)).or_default() += 1;
    if let Some(lateness) = record.lateness() {
        let slot = i64::from(Lateness::slot(lateness));
        *late.entry((minute, queue, slot)).or_default() += 1;
    }
}

fn add(load: &Transaction<'_>, sql: &str, counts: Counts) -> rusqlite::Result<()> {
    let mut statement = load.prepare_cached(sql)?;
    for ((minute, queue, of), many) in counts {
        statement.execute([minute, queue, of, many])?;
    }
    Ok(())
}
