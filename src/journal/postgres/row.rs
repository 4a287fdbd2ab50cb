//! Decoding of rows into records.

use std::error::Error as StdError;
use std::str::FromStr;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::fault::ErrorContext;
use crate::error::{ErrorKind, Result};
use crate::event::{EventId, Payload, TraceId};
use crate::record::{Cursor, NodeId, Numbered, Record, Stages};
use crate::time::Timestamp;

/// The 16 bytes of a column of type `uuid`.
#[derive(Debug)]
pub(super) struct UuidBytes(pub(super) [u8; 16]);

impl<'a> FromSql<'a> for UuidBytes {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(raw.try_into()?))
    }

    fn accepts(column: &Type) -> bool {
        *column == Type::UUID
    }
}

/// The columns of one row, read in order.
pub(super) struct Columns<'a> {
    row: &'a Row,
    next: usize,
    spot: ErrorContext<'a>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(row: &'a Row, spot: ErrorContext<'a>) -> Self {
        Self { row, next: 0, spot }
    }

    pub(super) fn take<T: FromSql<'a>>(&mut self) -> Result<T> {
        let value = self.row.try_get(self.next);
        self.next += 1;
        value.map_err(|fault| {
            let what = "a column has an unexpected type or value";
            self.spot.because(ErrorKind::Corrupt, what).because(fault)
        })
    }

    /// Reads an unsigned integer, stored with the same bits.
    pub(super) fn bits(&mut self) -> Result<u64> {
        Ok(self.take::<i64>()? as u64)
    }

    pub(super) fn parsed<T: FromStr>(&mut self) -> Result<T> {
        let text: &str = self.take()?;
        self.parse(text)
    }

    fn optional<T: FromStr>(&mut self) -> Result<Option<T>> {
        let text: Option<&str> = self.take()?;
        text.map(|text| self.parse(text)).transpose()
    }

    pub(super) fn parse<T: FromStr>(&self, text: &str) -> Result<T> {
        text.parse().map_err(|_| {
            let what = "a row has an unknown value; was it written by a newer duly?";
            self.spot.because(ErrorKind::Corrupt, what)
        })
    }

    /// Reads `finished, number, event`: the key of a record.
    pub(super) fn place(&mut self) -> Result<Cursor> {
        Ok(Cursor {
            finished_us: self.bits()?,
            number: self.bits()?,
            id: EventId::from_bytes(self.take::<UuidBytes>()?.0),
        })
    }

    /// Reads the columns of a record behind its place, in the order of
    /// [`COLUMNS`](super::copy::COLUMNS).
    pub(super) fn record_at(&mut self, place: Cursor) -> Result<Numbered> {
        let due = Timestamp::from_millis(self.bits()?);
        let stages = Stages {
            moved_us: self.bits()?,
            fetched_us: self.bits()?,
            started_us: self.bits()?,
            finished_us: place.finished_us,
        };
        let record = Record {
            id: place.id,
            due,
            stages,
            node: NodeId(self.bits()?),
            attempt: u16::try_from(self.take::<i32>()?).unwrap_or(u16::MAX),
            trace: self
                .take::<Option<UuidBytes>>()?
                .and_then(|trace| TraceId::from_bytes(trace.0)),
            queue: self.parsed()?,
            outcome: self.parsed()?,
            cause: self.optional()?,
            key: self.take()?,
            error: self.take()?,
            by: self.take()?,
            payload: self.take::<Option<&[u8]>>()?.map(Payload::from),
        };
        Ok((place.number, record))
    }
}
