//! Doors for tests: what lies in the file, straight to what reads it.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::codec::wire::View;
use crate::core::reference::DedupWindow;
use crate::error::Result;
use crate::event::{BucketKey, EventId, QueueName};
use crate::store::Control;
use crate::store::OutboxPage;
use crate::store::embedded::ledger::Row;
use crate::store::embedded::recovery::{self, Bounds};
use crate::store::embedded::starts::Start;
use crate::store::embedded::waiting::Span;
use crate::store::embedded::{records, schema, sums};
use crate::time::Timestamp;

/// One column of a row, of whatever type the file says.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// Another number.
    Real(f64),
    /// A text, in UTF-8 or not.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
    /// The checksum that is right for the rest of the row, if there is one.
    Seal,
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null | Self::Seal => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(bytes) => ValueRef::Text(bytes),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A table, and the place of the checksum in its rows.
#[derive(Clone, Copy, Debug)]
pub enum Table {
    /// Events that are not over.
    Events,
    /// History.
    Records,
    /// What is set of queues.
    Controls,
    /// What is in the journal.
    Outbox,
}

impl Table {
    fn columns(self) -> (&'static str, usize, usize) {
        match self {
            Self::Events => ("events", 6, 4),
            Self::Records => ("records", 18, 14),
            Self::Controls => ("controls", 6, 5),
            Self::Outbox => ("outbox", 3, 2),
        }
    }

    /// The checksum of a row that has the types of its table.
    fn sum(self, cells: &[Cell], connection: &Connection) -> Option<i64> {
        match (self, cells) {
            (Self::Events, [row, due, tries, dead, _, body]) => {
                let Cell::Blob(body) = body else { return None };
                let row = Row::new(integer(row)?, View::read(body).ok()?.id);
                Some(sums::of_event(
                    row,
                    integer(due)?,
                    integer(tries)?,
                    integer(dead),
                ))
            }
            (Self::Records, _) => {
                let select = format!("SELECT {}", marks(cells.len()));
                let mut statement = connection.prepare_cached(&select).ok()?;
                let read = |row: &rusqlite::Row<'_>| Ok(records::sum(row));
                statement.query_row(params_from_iter(cells), read).ok()?
            }
            (Self::Controls, [queue, paused, workers, rate, buckets, _]) => {
                let Cell::Text(queue) = queue else {
                    return None;
                };
                let control = Control {
                    paused: integer(paused)? != 0,
                    workers: integer(workers).and_then(|it| u16::try_from(it).ok()),
                    rate: match rate {
                        Cell::Real(rate) => Some(*rate),
                        _ => None,
                    },
                    buckets: integer(buckets).and_then(|it| u16::try_from(it).ok()),
                };
                Some(sums::of_control(std::str::from_utf8(queue).ok()?, &control))
            }
            (Self::Outbox, [_, trimmed, _]) => Some(sums::of_outbox(integer(trimmed)?)),
            _ => None,
        }
    }
}

fn integer(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Integer(number) => Some(*number),
        _ => None,
    }
}

fn marks(many: usize) -> String {
    vec!["?"; many].join(",")
}

/// What was read of a file.
#[derive(Debug)]
pub struct Opened {
    /// The first page of its history.
    pub records: OutboxPage,
    /// What is set of queues.
    pub controls: BTreeMap<QueueName, Control>,
    /// Which buckets have events that are not over.
    pub buckets: Vec<BucketKey>,
    /// What is wrong in the index, if anything is.
    pub check: std::result::Result<(), String>,
}

/// Opens a store, in memory, whose file holds these rows.
///
/// # Errors
///
/// As opening a store.
pub fn open(rows: &[(Table, Vec<Cell>)]) -> Result<Opened> {
    let wrong = |error| schema::KIND.at_open(Path::new("memory"), error);
    let connection = Connection::open_in_memory().map_err(wrong)?;
    schema::loose(&connection).map_err(wrong)?;
    for (table, cells) in rows {
        let (name, len, sum) = table.columns();
        let mut cells = cells.clone();
        cells.resize(len, Cell::Null);
        if let Cell::Seal = cells[sum] {
            let sum_of_row = table.sum(&cells, &connection);
            cells[sum] = sum_of_row.map_or(Cell::Null, Cell::Integer);
        }
        let insert = format!("INSERT OR IGNORE INTO {name} VALUES ({})", marks(len));
        // A row that SQLite itself refuses lies in no file.
        let _ = connection
            .prepare_cached(&insert)
            .and_then(|mut statement| statement.execute(params_from_iter(&cells)));
    }
    let (first, last) = records::ends(&connection, 0).map_err(wrong)?;
    let next = last + 1;
    let page = records::page(&connection, Span { first, next }, 0, 100).map_err(wrong)?;
    let bounds = Bounds {
        records: 1_000,
        window: DedupWindow::default(),
    };
    let now = Timestamp::from_millis(1_700_000_000_000);
    let memory = Path::new("memory");
    let recovered = recovery::recover(memory, connection, HashSet::new(), &bounds, now)?;
    Ok(Opened {
        records: page,
        controls: recovered.controls,
        buckets: recovered.shards.keys(),
        check: recovered.shards.check(),
    })
}

/// The note of a start that 32 bytes are: its event, its attempt and its due time.
#[must_use]
pub fn note(bytes: &[u8; 32]) -> Option<(EventId, u16, Timestamp)> {
    Start::from_bytes(bytes).map(|start| (start.id, start.attempt, start.due))
}
