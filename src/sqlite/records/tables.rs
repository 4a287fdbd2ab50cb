//! The tables of records, their indexes, and the names that stand in them.
//!
//! `src/docs/journal.md` describes them for whoever reads the file with another tool.

use rusqlite::Connection;

use crate::panics;
use crate::record::{Cause, Outcome};
use crate::sqlite::records::{views, words};

/// The order of the key of `records` is the order in which they are read: a new record goes to the
/// end, where the pages are in memory, and a page of records lies in one place.
///
/// `tenths` says in which tenths of a second a queue has records, which leads to them without an
/// index of all records by queue: that would cost a third of all that is written.
///
/// Keys and traces come in no order at all. Their indexes begin with the part that a record belongs
/// to, and only the last part grows, so that what is written of an index is as small as that part,
/// and not as large as the file.
pub(crate) const TABLES: &str = "
CREATE TABLE queues (
  number INTEGER PRIMARY KEY,
  name   TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE outcomes (
  number INTEGER PRIMARY KEY,
  name   TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE causes (
  number INTEGER PRIMARY KEY,
  name   TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE records (
  finished INTEGER NOT NULL,
  number   INTEGER NOT NULL,
  event    BLOB    NOT NULL,
  queue    INTEGER NOT NULL,
  outcome  INTEGER NOT NULL,
  cause    INTEGER,
  attempt  INTEGER NOT NULL,
  node     INTEGER NOT NULL,
  due      INTEGER NOT NULL,
  moved    INTEGER NOT NULL,
  fetched  INTEGER NOT NULL,
  started  INTEGER NOT NULL,
  part     INTEGER NOT NULL,
  sum      INTEGER NOT NULL,
  key      TEXT,
  trace    BLOB,
  by       TEXT,
  error    TEXT,
  payload  ANY,
  PRIMARY KEY (finished, number, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX by_event ON records (event, finished, number);
CREATE INDEX by_outcome ON records (outcome, finished, number, event) WHERE outcome <> 0;
CREATE INDEX by_queue_outcome ON records (queue, outcome, finished, number, event)
  WHERE outcome <> 0;
CREATE INDEX by_cause ON records (cause, finished, number, event) WHERE cause IS NOT NULL;
CREATE INDEX by_key ON records (part, key, finished, number, event) WHERE key IS NOT NULL;
CREATE INDEX by_trace ON records (part, trace, finished, number, event) WHERE trace IS NOT NULL;
CREATE INDEX by_error ON records (finished, number, event) WHERE error IS NOT NULL;
CREATE TABLE tenths (
  of_queue INTEGER NOT NULL,
  tenth    INTEGER NOT NULL,
  PRIMARY KEY (of_queue, tenth)
) STRICT, WITHOUT ROWID;
CREATE TABLE parts (
  number  INTEGER PRIMARY KEY,
  records INTEGER NOT NULL
) STRICT;
INSERT INTO parts VALUES (0, 0);
CREATE TABLE minutes (
  minute  INTEGER NOT NULL,
  queue   INTEGER NOT NULL,
  outcome INTEGER NOT NULL,
  count   INTEGER NOT NULL,
  PRIMARY KEY (minute, queue, outcome)
) STRICT, WITHOUT ROWID;
CREATE INDEX minutes_by_queue ON minutes (queue, minute, outcome);
CREATE TABLE lateness (
  minute INTEGER NOT NULL,
  queue  INTEGER NOT NULL,
  slot   INTEGER NOT NULL,
  count  INTEGER NOT NULL,
  PRIMARY KEY (minute, queue, slot)
) STRICT, WITHOUT ROWID;
CREATE TABLE pruned (
  what    TEXT PRIMARY KEY,
  since   INTEGER NOT NULL,
  begun   INTEGER NOT NULL,
  through INTEGER NOT NULL
) STRICT;";

/// By which the tenths before a time are found, to be forgotten.
const TENTHS_BY_TIME: &str = "CREATE INDEX IF NOT EXISTS tenths_by_time ON tenths (tenth)";

/// Creates the tables in a file that has none, and the views.
pub(crate) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)?;
    connection.execute_batch(TENTHS_BY_TIME)?;
    write_names(connection)?;
    connection.execute_batch(&views::all())
}

/// Adds what a file from before it lacks: an index, and the names of outcomes and causes, without
/// which its views would leave their records out. Nothing but the views reads the names, and the
/// index only saves time, so a file that cannot be written, such as one on a full disk, does without.
pub(crate) fn complete(connection: &Connection) {
    let count = "SELECT (SELECT count(*) FROM outcomes) + (SELECT count(*) FROM causes)";
    let known = connection.query_row(count, [], |row| row.get::<_, i64>(0));
    let all = Outcome::ALL.len() + Cause::ALL.len();
    let completed = known.and_then(|known| {
        if known < all as i64 {
            write_names(connection)?;
        }
        connection.execute_batch(TENTHS_BY_TIME)
    });
    if let Err(error) = completed {
        panics::reported(|| {
            tracing::warn!(%error, "failed to add an index or names of outcomes to the tables of records");
        });
    }
}

fn write_names(connection: &Connection) -> rusqlite::Result<()> {
    for outcome in Outcome::ALL {
        let named = (words::of_outcome(outcome), outcome.as_str());
        connection.execute("INSERT OR IGNORE INTO outcomes VALUES (?1, ?2)", named)?;
    }
    for cause in Cause::ALL {
        let named = (words::of_cause(cause), cause.as_str());
        connection.execute("INSERT OR IGNORE INTO causes VALUES (?1, ?2)", named)?;
    }
    Ok(())
}
