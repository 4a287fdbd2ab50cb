//! File formats for exported records.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result, shown};
use crate::record::Record;

/// A line-based file format for records.
///
/// # JSON lines
///
/// Each line is a JSON object that parses back into an equal [`Record`]. Its names are those of the
/// fields; `due` is in milliseconds since the epoch, `stages` in microseconds, `node` is a 64-bit
/// integer, `payload` a string if it is UTF-8 and otherwise a list of bytes.
///
/// # CSV
///
/// The first line has the column names, in this order:
///
/// | column | content |
/// |---|---|
/// | `id`, `queue`, `key` | the event |
/// | `attempt` | from 1; 0 if none had begun |
/// | `outcome`, `cause` | in snake case |
/// | `due_ms` | when the attempt was due, in milliseconds since the epoch |
/// | `moved_us`, `fetched_us`, `started_us`, `finished_us` | the stages, in microseconds since the epoch; 0 if never reached |
/// | `lateness_us` | from due to start, in microseconds; empty if no handler started |
/// | `node` | 16 hexadecimal digits, as in the log |
/// | `error`, `trace` | |
/// | `payload` | as text, if it is UTF-8 |
/// | `payload_hex` | in hexadecimal digits, if it is not |
/// | `by` | the actor of an administrative operation |
///
/// Missing values are empty cells. Cells are quoted as in [RFC
/// 4180](https://www.rfc-editor.org/rfc/rfc4180), and lines end in a line feed. Cells are exported
/// unchanged, also if they begin with `=`, `+`, `-` or `@`, so that they parse back. A spreadsheet
/// may take such a cell for a formula, and errors and keys can contain anything: import the columns
/// as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// One JSON object a line.
    JsonLines,
    /// Comma-separated values with a header line.
    Csv,
}

const COLUMNS: [&str; 18] = [
    "id",
    "queue",
    "key",
    "attempt",
    "outcome",
    "cause",
    "due_ms",
    "moved_us",
    "fetched_us",
    "started_us",
    "finished_us",
    "lateness_us",
    "node",
    "error",
    "trace",
    "payload",
    "payload_hex",
    "by",
];

impl Format {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::JsonLines, Self::Csv];

    /// The name, which is also the usual file extension.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonLines => "jsonl",
            Self::Csv => "csv",
        }
    }

    /// Returns the bytes before the first record.
    #[must_use]
    pub fn head(self) -> Vec<u8> {
        match self {
            Self::JsonLines => Vec::new(),
            Self::Csv => format!("{}\n", COLUMNS.join(",")).into_bytes(),
        }
    }

    /// Appends the line of a record to `bytes`.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::records::{Format, Record};
    ///
    /// let line = br#"{"id":"00000000000000000000000001","queue":"orders","key":"a, \"b\"",
    ///     "attempt":1,"outcome":"acked","due":5,"stages":{"moved_us":5000,"fetched_us":5001,
    ///     "started_us":5002,"finished_us":5003},"node":1}"#;
    /// let record: Record = serde_json::from_slice(line)?;
    /// let mut csv = Vec::new();
    /// Format::Csv.write(&record, &mut csv);
    /// assert!(csv.starts_with(b"00000000000000000000000001,orders,\"a, \"\"b\"\"\",1,acked,,5,"));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn write(self, record: &Record, bytes: &mut Vec<u8>) {
        match self {
            Self::JsonLines => {
                // Cannot fail: every field is a text, a number or a list, and writes to memory
                // succeed.
                let _ = serde_json::to_writer(&mut *bytes, record);
                bytes.push(b'\n');
            }
            Self::Csv => {
                let mut lines = csv::WriterBuilder::new().from_writer(&mut *bytes);
                // Cannot fail: every line has the same number of cells.
                let _ = lines.write_record(cells(record));
            }
        }
    }
}

fn cells(record: &Record) -> [String; COLUMNS.len()] {
    fn shown<T: fmt::Display>(value: Option<T>) -> String {
        value.map_or_else(String::new, |value| value.to_string())
    }
    let stages = &record.stages;
    let payload = record.payload.as_ref().map(|payload| payload.as_bytes());
    let (text, hex) = match payload.map(|bytes| (std::str::from_utf8(bytes), bytes)) {
        None => (String::new(), String::new()),
        Some((Ok(text), _)) => (text.to_owned(), String::new()),
        Some((Err(_), bytes)) => (String::new(), hex(bytes)),
    };
    [
        record.id.to_string(),
        record.queue.to_string(),
        shown(record.key.as_ref()),
        record.attempt.to_string(),
        record.outcome.to_string(),
        shown(record.cause),
        record.due.as_millis().to_string(),
        stages.moved_us.to_string(),
        stages.fetched_us.to_string(),
        stages.started_us.to_string(),
        stages.finished_us.to_string(),
        shown(record.lateness().map(|late| late.as_micros())),
        record.node.to_string(),
        shown(record.error.as_ref()),
        shown(record.trace),
        text,
        hex,
        shown(record.by.as_ref()),
    ]
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |digit: u8| char::from(DIGITS[usize::from(digit)]); // below 16
    let pairs = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    pairs.map(digit).collect()
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|format| format.as_str() == text);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!(
                "unknown format `{}`, expected one of {known}",
                shown(text)
            ))
        })
    }
}
