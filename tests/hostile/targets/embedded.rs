//! What lies in the files of an embedded store.

use std::collections::HashSet;
use std::path::Path;

use duly::__internal::embedded::{COLUMNS, Reader, loose, of_control, of_event, sum_of_row};
use duly::__internal::embedded::{Note, Recovery, Row, recover};
use duly::__internal::{DedupWindow, wire};
use duly::records::Query;
use duly::store::Control;
use duly::time::Timestamp;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};
use xxhash_rust::xxh3::xxh3_64;

use super::{TIMES, bounded, few_words};

/// The rows of an embedded store's file.
///
/// A row is a byte for its table, then its columns, to a byte that is none. A column is a byte for
/// its type, and then a number of 8 bytes or a length in one and so many bytes.
pub(crate) fn embedded_rows(data: &[u8]) {
    let rows = rows(data);
    // A row of two bytes is nineteen columns of nothing.
    match bounded(data.len(), 4 * TIMES, || opened(&rows)) {
        Ok((found, recovered)) => {
            assert_eq!(recovered.check(), Ok(()));
            assert!(found <= rows.len());
            assert!(recovered.controls.len() <= rows.len());
            assert!(recovered.buckets().len() <= rows.len());
        }
        Err(error) => few_words(&error),
    }
}

/// Reads the first page of the history in a file with these rows, and then recovers a store from
/// it; returns how many records the page has.
fn opened(rows: &[(Table, Vec<Cell>)]) -> Result<(usize, Recovery), String> {
    let connection = Connection::open_in_memory().expect("memory can be opened");
    loose(&connection).expect("tables can be made");
    for (table, cells) in rows {
        let (into, len, sum) = table.columns();
        let mut cells = cells.clone();
        cells.resize(len, Cell::Null);
        if let Some(sum) = sum
            && let Cell::Seal = cells[sum]
        {
            let sum_of_row = table.sum(&cells, &connection);
            cells[sum] = sum_of_row.map_or(Cell::Null, Cell::Integer);
        }
        let marks = vec!["?"; len].join(",");
        // A row that SQLite itself refuses lies in no file.
        let _ = connection
            .prepare_cached(&format!("INSERT OR IGNORE INTO {into} VALUES ({marks})"))
            .and_then(|mut statement| statement.execute(params_from_iter(&cells)));
    }
    let mut reader = Reader::new(connection);
    let found = reader.page(&Query::default());
    let found = found.map_err(|error| error.to_string())?.records.len();
    let recovered = recover(
        Path::new("memory"),
        reader.into_connection(),
        HashSet::new(),
        DedupWindow::default(),
        Timestamp::from_millis(1_700_000_000_000),
    );
    Ok((found, recovered.map_err(|error| error.to_string())?))
}

/// One column of a row, of whatever type the file says.
#[derive(Clone, Debug)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    /// In UTF-8 or not.
    Text(Vec<u8>),
    Blob(Vec<u8>),
    /// The checksum that is right for the rest of the row, if there is one.
    Seal,
}

impl Cell {
    fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }
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

/// A table of the file.
#[derive(Clone, Copy, Debug)]
enum Table {
    Events,
    Records,
    Controls,
    Queues,
}

impl Table {
    /// What is inserted into, how many columns a row has, and which of them is the checksum.
    fn columns(self) -> (String, usize, Option<usize>) {
        match self {
            Self::Events => ("events".to_owned(), 6, Some(4)),
            Self::Records => {
                let columns = COLUMNS.split(',').count();
                (format!("records (part, {COLUMNS})"), columns + 1, Some(13))
            }
            Self::Controls => ("controls".to_owned(), 6, Some(5)),
            Self::Queues => ("queues".to_owned(), 2, None),
        }
    }

    /// The checksum of a row that has the types of its table.
    fn sum(self, cells: &[Cell], connection: &Connection) -> Option<i64> {
        match (self, cells) {
            (Self::Events, [row, due, tries, dead, _, Cell::Blob(body)]) => {
                let row = Row::new(row.integer()?, wire::view(body).ok()?.id);
                let (due, tries) = (due.integer()?, tries.integer()?);
                Some(of_event(row, due, tries, dead.integer()))
            }
            (Self::Records, [_, columns @ ..]) => sum_of_row(connection, columns),
            (Self::Controls, [Cell::Text(queue), paused, workers, rate, buckets, _]) => {
                let control = Control {
                    paused: paused.integer()? != 0,
                    workers: workers.integer().and_then(|it| u16::try_from(it).ok()),
                    rate: match rate {
                        Cell::Real(rate) => Some(*rate),
                        _ => None,
                    },
                    buckets: buckets.integer().and_then(|it| u16::try_from(it).ok()),
                };
                Some(of_control(std::str::from_utf8(queue).ok()?, &control))
            }
            _ => None,
        }
    }
}

fn rows(mut data: &[u8]) -> Vec<(Table, Vec<Cell>)> {
    let mut rows = Vec::new();
    while let Some((table, rest)) = data.split_first() {
        data = rest;
        let table = match table % 4 {
            0 => Table::Events,
            1 => Table::Records,
            2 => Table::Controls,
            _ => Table::Queues,
        };
        let mut cells = Vec::new();
        while let Some(cell) = cell(&mut data) {
            cells.push(cell);
        }
        rows.push((table, cells));
    }
    rows
}

fn cell(data: &mut &[u8]) -> Option<Cell> {
    let (kind, rest) = data.split_first()?;
    *data = rest;
    Some(match kind {
        b'n' => Cell::Null,
        b's' => Cell::Seal,
        b'i' => Cell::Integer(i64::from_be_bytes(number(data)?)),
        b'r' => Cell::Real(f64::from_be_bytes(number(data)?)),
        b't' => Cell::Text(some(data)?),
        b'b' => Cell::Blob(some(data)?),
        // An envelope whose checksum is right.
        b'e' => {
            let body = some(data)?;
            Cell::Blob([&body[..], &xxh3_64(&body).to_le_bytes()].concat())
        }
        _ => return None,
    })
}

fn number(data: &mut &[u8]) -> Option<[u8; 8]> {
    let (number, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(*number)
}

fn some(data: &mut &[u8]) -> Option<Vec<u8>> {
    let (len, rest) = data.split_first()?;
    let (bytes, rest) = rest.split_at_checked(usize::from(*len))?;
    *data = rest;
    Some(bytes.to_vec())
}

/// The notes of an embedded store of what has started.
pub(crate) fn embedded_note(data: &[u8]) {
    for note in data.as_chunks::<32>().0 {
        let _ = Note::from_bytes(note);
        let mut sealed = *note;
        let sum = xxh3_64(&note[..28]).to_le_bytes();
        sealed[28..].copy_from_slice(&sum[..4]);
        let (kind, start) = match Note::from_bytes(&sealed) {
            Some(Note::Started(start)) => (Some([0, 0]), Some(start)),
            Some(Note::HandedBack(start)) => (Some([1, 0]), Some(start)),
            None => (None, None),
        };
        let known = [[0, 0], [1, 0]]
            .into_iter()
            .find(|kind| sealed[26..28] == *kind);
        assert_eq!(kind, known, "{sealed:?}");
        assert!(start.is_none_or(|start| start.id.to_bytes() == sealed[..16]));
    }
}
