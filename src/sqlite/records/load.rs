//! Loading records within a transaction: the rows, their counts by minute and their number.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::Connection;

use crate::event::QueueName;
use crate::record::{Lateness, MinuteStats, Record};
use crate::sqlite::records::queue_names::number_of;
use crate::sqlite::records::rows::{self, AT_ONCE, NewRow};
use crate::sqlite::records::{parts, tenths, words};

/// The most queues whose number is kept in memory.
const NUMBERS_MAX: usize = 1_024;

/// Numbers of queues by their names. To be cleared when a transaction that gave one is rolled back,
/// and when another process may have forgotten one.
pub(crate) type QueueNumbers = HashMap<QueueName, i64>;

/// How many there are by minute, queue, and outcome or slot.
type Counts = BTreeMap<(i64, i64, i64), i64>;

/// Whether a record may be in the table already.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arrival {
    /// The transaction gives it its number, so it is new.
    First,
    /// It comes from an outbox, and may have come before.
    Repeatable,
}

/// How many records are written together: few enough to stay in the processor's cache meanwhile.
const TOGETHER: usize = 1_024;

/// Records that are loaded within one transaction.
///
/// They are written some at a time, in the order of the table: a row that goes behind all others
/// splits no page of it in two.
#[derive(Debug)]
pub(crate) struct Load<'r> {
    arrival: Arrival,
    /// Added, and not written yet.
    rows: Vec<NewRow<'r>>,
    counted: NewRecords,
    /// The part that grows, once it is known.
    part: Option<i64>,
    /// The queue of the last record, and its number: that of the next one, as a rule.
    last: Option<(QueueName, i64)>,
}

impl<'r> Load<'r> {
    /// A load of nothing yet.
    pub(crate) fn new(arrival: Arrival) -> Self {
        Self {
            arrival,
            rows: Vec::new(),
            counted: NewRecords::default(),
            part: None,
            last: None,
        }
    }

    /// Adds a record; the transaction is open.
    pub(crate) fn add(
        &mut self,
        connection: &Connection,
        queues: &mut QueueNumbers,
        number: u64,
        record: Cow<'r, Record>,
    ) -> rusqlite::Result<()> {
        let queue = match &self.last {
            Some((name, queue)) if *name == record.queue => *queue,
            _ => {
                let queue = match queues.get(&record.queue) {
                    Some(queue) => *queue,
                    None => number_given(connection, queues, &record.queue)?,
                };
                self.last = Some((record.queue.clone(), queue));
                queue
            }
        };
        self.rows.push(NewRow::new(number, record, queue));
        if self.rows.len() == TOGETHER {
            self.write(connection)?;
        }
        Ok(())
    }

    /// Writes the rest of the records, and the counts; returns how many were not there before.
    pub(crate) fn finish(mut self, connection: &Connection) -> rusqlite::Result<i64> {
        self.write(connection)?;
        match self.part {
            Some(part) => self.counted.write(connection, part),
            None => Ok(0),
        }
    }

    /// Writes what was added, but for records that are there already.
    fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let part = match self.part {
            Some(part) => part,
            None => *self.part.insert(parts::growing(connection)?),
        };
        // Stable: of those that cannot be told apart the first is kept.
        self.rows.sort_by_key(|row| row.place);
        let mut rows = &self.rows[..];
        if self.arrival == Arrival::First {
            let (chunks, rest) = self.rows.as_chunks::<AT_ONCE>();
            let mut insert = connection.prepare_cached(rows::insert_sql(AT_ONCE))?;
            for chunk in chunks {
                rows::insert(&mut insert, chunk, part)?;
                chunk.iter().for_each(|row| self.counted.count(row));
            }
            rows = rest;
        }
        let mut insert = connection.prepare_cached(rows::insert_sql(1))?;
        for row in rows {
            if rows::insert(&mut insert, std::slice::from_ref(row), part)? > 0 {
                self.counted.count(row);
            }
        }
        self.rows.clear();
        Ok(())
    }
}

/// How many records are new, in all and by minute.
#[derive(Debug, Default)]
struct NewRecords {
    outcomes: Counts,
    late: Counts,
    /// Queues and the tenths of a second in which they have records.
    tenths: BTreeSet<(i64, i64)>,
    new: i64,
}

impl NewRecords {
    fn count(&mut self, row: &NewRow<'_>) {
        self.new += 1;
        let (record, queue) = (&row.record, row.queue);
        let (finished, ..) = row.place;
        self.tenths.insert((queue, tenths::of(finished)));
        let minute = rows::comparable(MinuteStats::of(record).as_millis() / 60_000);
        let outcome = words::of_outcome(record.outcome);
        *self.outcomes.entry((minute, queue, outcome)).or_default() += 1;
        if let Some(lateness) = record.lateness() {
            let slot = i64::from(Lateness::slot(lateness));
            *self.late.entry((minute, queue, slot)).or_default() += 1;
        }
    }

    fn write(self, connection: &Connection, part: i64) -> rusqlite::Result<i64> {
        add(
            connection,
            "INSERT INTO minutes (minute, queue, outcome, count) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (minute, queue, outcome) DO UPDATE SET count = count + excluded.count",
            self.outcomes,
        )?;
        add(
            connection,
            "INSERT INTO lateness (minute, queue, slot, count) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (minute, queue, slot) DO UPDATE SET count = count + excluded.count",
            self.late,
        )?;
        tenths::note(connection, self.tenths)?;
        parts::count(connection, part, self.new)?;
        Ok(self.new)
    }
}

/// Gives a queue its number, if it has none.
fn number_given(
    connection: &Connection,
    queues: &mut QueueNumbers,
    name: &QueueName,
) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("INSERT INTO queues (name) VALUES (?1) ON CONFLICT (name) DO NOTHING")?
        .execute([name.as_str()])?;
    if queues.len() >= NUMBERS_MAX {
        queues.clear(); // those in use are read again
    }
    let number = number_of(connection, name)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    queues.insert(name.clone(), number);
    Ok(number)
}

fn add(connection: &Connection, sql: &str, counts: Counts) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(sql)?;
    for ((minute, queue, of), many) in counts {
        statement.execute([minute, queue, of, many])?;
    }
    Ok(())
}
