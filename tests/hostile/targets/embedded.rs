//! What lies in the files of an embedded store.

use duly::__internal::embedded;
use duly::__internal::embedded::{Cell, Table};
use xxhash_rust::xxh3::xxh3_64;

use super::{TIMES, bounded, few_words};

/// The rows of an embedded store's file.
///
/// A row is a byte for its table, then its columns, to a byte that is none. A column is a byte for
/// its type, and then a number of 8 bytes or a length in one and so many bytes.
pub(crate) fn embedded_rows(data: &[u8]) {
    let rows = rows(data);
    // A row of two bytes is eighteen columns of nothing.
    match bounded(data.len(), 4 * TIMES, || embedded::open(&rows)) {
        Ok(opened) => {
            assert_eq!(opened.check, Ok(()));
            assert!(opened.records.records.len() <= rows.len());
            assert!(opened.controls.len() <= rows.len() && opened.buckets.len() <= rows.len());
        }
        Err(error) => few_words(&error),
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
            _ => Table::Outbox,
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
        let _ = embedded::note(note);
        let mut sealed = *note;
        let sum = xxh3_64(&note[..28]).to_le_bytes();
        sealed[28..].copy_from_slice(&sum[..4]);
        let read = embedded::note(&sealed);
        assert_eq!(read.is_some(), sealed[26..28] == [0, 0], "{sealed:?}");
        let id = read.map(|(id, ..)| id.to_bytes().to_vec());
        assert!(id.is_none_or(|id| id == sealed[..16]));
    }
}
