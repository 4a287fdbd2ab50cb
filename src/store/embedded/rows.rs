//! The rows of all events, read in batches: a thread reads them while another one restores them.

use std::ops::Range;
use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use rusqlite::{Connection, Row};

use crate::core::op::UsedAttempts;
use crate::error::{Error, Result};
use crate::time::Timestamp;

/// How many rows are handed over at a time.
const BATCH: usize = 1_024;
/// How many batches wait at most.
const WAITING_MAX: usize = 4;
/// From how many events on a thread reads them; to start one takes as long as some hundred rows.
const WORTH_A_THREAD: i64 = 10_000;

/// Rows in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The number of each row, and its columns where they are such of an event.
    pub(super) rows: Vec<(i64, Result<Columns>)>,
    /// The bodies, one after the other.
    pub(super) bytes: Vec<u8>,
}

/// The columns of an event as they are in the file.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) due: i64,
    pub(super) tries: i64,
    pub(super) dead: Option<i64>,
    pub(super) sum: i64,
    /// Where its body lies in [`Batch::bytes`].
    pub(super) body: Range<usize>,
}

/// Returns the used attempts of a column: those that count, and the free interruptions from bit 16.
pub(super) fn used(tries: i64) -> UsedAttempts {
    UsedAttempts {
        tries: u16::try_from(tries & 0xffff).unwrap_or(u16::MAX), // it has 16 bits
        interruptions: u8::try_from(tries >> 16).unwrap_or(u8::MAX), // written from 8 bits
    }
}

/// Returns the column of used attempts.
pub(super) fn of_used(used: UsedAttempts) -> i64 {
    i64::from(used.tries) | i64::from(used.interruptions) << 16
}

/// Reads all events, of which there are about `count`, and passes them to `take`.
pub(super) fn read(
    connection: &mut Connection,
    count: i64,
    mut take: impl FnMut(Batch),
) -> rusqlite::Result<()> {
    if count < WORTH_A_THREAD {
        return read_here(connection, |batch| {
            take(batch);
            true
        });
    }
    let handed = Mutex::new(connection);
    let read = thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel(WAITING_MAX);
        let handed = &handed;
        let reader = move || read_here(&handed.lock(), |it| sender.send(it).is_ok());
        let Ok(reading) = thread::Builder::new().spawn_scoped(scope, reader) else {
            return None; // the system has no thread
        };
        batches.into_iter().for_each(&mut take);
        let read = reading.join();
        Some(read.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    read.unwrap_or_else(|| {
        read_here(&handed.lock(), |batch| {
            take(batch);
            true
        })
    })
}

/// Reads all events for as long as `take` wants more.
fn read_here(connection: &Connection, mut take: impl FnMut(Batch) -> bool) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare("SELECT row, due, tries, dead, sum, body FROM events ORDER BY row")?;
    let mut rows = statement.query([])?;
    let mut batch = Batch::default();
    while let Some(row) = rows.next()? {
        let columns = batch.columns(row);
        batch.rows.push((row.get(0)?, columns));
        if batch.rows.len() == BATCH && !take(std::mem::take(&mut batch)) {
            return Ok(());
        }
    }
    take(batch);
    Ok(())
}

impl Batch {
    fn columns(&mut self, row: &Row<'_>) -> Result<Columns> {
        let no_event = |error| Error::corrupt("its row is no event").because(error);
        let body = row.get_ref(5).map_err(no_event)?;
        let body = body
            .as_blob()
            .map_err(|error| Error::corrupt("it is no envelope").because(error))?;
        let from = self.bytes.len();
        self.bytes.extend_from_slice(body);
        Ok(Columns {
            due: row.get(1).map_err(no_event)?,
            tries: row.get(2).map_err(no_event)?,
            dead: row.get(3).map_err(no_event)?,
            sum: row.get(4).map_err(no_event)?,
            body: from..self.bytes.len(),
        })
    }
}

/// As SQLite has it; a time past its range keeps its bits, as nothing is ordered by it there.
pub(super) fn ms(time: Timestamp) -> i64 {
    time.as_millis().cast_signed()
}
