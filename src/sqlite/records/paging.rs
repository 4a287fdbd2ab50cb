//! Pages of records: through one index, chosen here, and a bounded number of rows.
//!
//! SQLite is told which index to take; left to itself it would now and then sort a million rows.
//! All other filters are looked at here, row by row, so that each row is counted.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, Rows, params_from_iter};

use crate::panics;
use crate::record::{Cursor, FoundRecords, Numbered, Order, Query};
use crate::sqlite::records::conditions::{self, Bound, Conditions};
use crate::sqlite::records::queue_names::{Names, name_of, number_of};
use crate::sqlite::records::rows::{self, COLUMNS, Place, TABLE, at};
use crate::sqlite::records::{parts, tenths, words};

/// The most rows that one page looks at where it walks the table.
const WALKED_MAX: usize = 10_000;
/// The most rows that one page looks at where an index leads to them: they lie apart, each on a
/// page of its own at worst.
const LED_TO_MAX: usize = 2_000;

/// The tenths of a second in which a queue has records, and in them the table.
const TENTHS: &str = "sqlite_autoindex_tenths_1";

/// The connection that only reads.
#[derive(Debug)]
pub struct Reader {
    pub(super) connection: Connection,
}

/// Through which index rows are come by.
#[derive(Debug, PartialEq)]
struct Way {
    index: &'static str,
    /// What every row on the way has.
    terms: &'static str,
    /// The values of the terms, for each of the ways that are walked side by side.
    values: Vec<Vec<Value>>,
}

impl Way {
    /// `parts` are those that the table has.
    fn of(conditions: &Conditions<'_>, parts: &[i64]) -> Self {
        let way = |index, terms, values: Vec<Value>| Self {
            index,
            terms,
            values: vec![values],
        };
        let blob = |bytes: [u8; 16]| Value::Blob(bytes.to_vec());
        if let Some(event) = conditions.event {
            return way("by_event", "event = ?7", vec![blob(event)]);
        }
        let in_each_part = |index, terms, value: &Value| Self {
            index,
            terms,
            values: parts
                .iter()
                .map(|part| vec![Value::Integer(*part), value.clone()])
                .collect(),
        };
        if let Some(trace) = conditions.trace {
            return in_each_part("by_trace", "part = ?7 AND trace = ?8", &blob(trace));
        }
        if let Some(key) = conditions.key {
            let key = Value::Text(key.to_owned());
            return in_each_part("by_key", "part = ?7 AND key = ?8", &key);
        }
        if !conditions.outcomes.is_empty() && !conditions.outcomes.contains(&words::ACKED) {
            let outcomes = conditions.outcomes.iter().map(|it| Value::Integer(*it));
            return match conditions.queue {
                Some(queue) => Self {
                    index: "by_queue_outcome",
                    terms: "queue = ?7 AND outcome = ?8 AND outcome <> 0",
                    values: outcomes.map(|it| vec![Value::Integer(queue), it]).collect(),
                },
                None => Self {
                    index: "by_outcome",
                    terms: "outcome = ?7 AND outcome <> 0",
                    values: outcomes.map(|it| vec![it]).collect(),
                },
            };
        }
        if let Some(cause) = conditions.cause {
            return way("by_cause", "cause = ?7", vec![Value::Integer(cause)]);
        }
        if conditions.error.is_some() {
            return way("by_error", "error IS NOT NULL", Vec::new());
        }
        if let Some(queue) = conditions.queue {
            return way(TENTHS, "TRUE", vec![Value::Integer(queue)]);
        }
        way(TABLE, "TRUE", Vec::new())
    }

    /// How many rows one page looks at.
    fn looks_at(&self) -> usize {
        match self.index {
            TABLE | TENTHS => WALKED_MAX,
            _ => LED_TO_MAX,
        }
    }

    fn sql(&self, order: Order) -> String {
        let (index, terms) = (self.index, self.terms);
        let to = match order {
            Order::Oldest => "ASC",
            Order::Newest => "DESC",
        };
        let (from, finished, tenth) = match index {
            // With a sign SQLite compares the times, and does not look them up once more.
            TENTHS => (
                tenths::records_of_queue(),
                "+finished",
                format!("tenth {to}, "),
            ),
            _ => (
                format!("records INDEXED BY {index} WHERE TRUE"),
                "finished",
                String::new(),
            ),
        };
        format!(
            "SELECT {COLUMNS} FROM {from} AND {terms} \
             AND ({finished}, number, event) > (?1, ?2, ?3) \
             AND ({finished}, number, event) < (?4, ?5, ?6) \
             ORDER BY {tenth}finished {to}, number {to}, event {to}"
        )
    }
}

/// One of the ways that are walked side by side, and the row that it has come to.
struct Walk<'s> {
    rows: Rows<'s>,
    here: Option<Here>,
}

struct Here {
    place: Place,
    /// `None`: not asked for. Read while SQLite is at the row.
    found: Option<Numbered>,
    /// Whether it is asked for, and cannot be read.
    is_damaged: bool,
}

impl Reader {
    /// A reader of the tables of records behind `connection`.
    pub fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// The connection itself.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    /// A page of records.
    pub fn page(&mut self, query: &Query) -> rusqlite::Result<FoundRecords> {
        find(&self.connection, query)
    }

    /// How SQLite comes by the records of a query, in its words.
    pub(crate) fn plan(&self, query: &Query) -> rusqlite::Result<Vec<String>> {
        let queue = match &query.queue {
            Some(name) => Some(number_of(&self.connection, name)?.unwrap_or(0)),
            None => None,
        };
        let way = Way::of(&Conditions::of(query, queue), &[]);
        let sql = format!("EXPLAIN QUERY PLAN {}", way.sql(query.order));
        let mut statement = self.connection.prepare(&sql)?;
        // The way depends on the words alone, not on values.
        statement.raw_query().mapped(|row| row.get(3)).collect()
    }
}

fn find(connection: &Connection, query: &Query) -> rusqlite::Result<FoundRecords> {
    // One state of the file for all statements.
    let connection = &*connection.unchecked_transaction()?;
    let mut names = Names::new();
    let queue = match &query.queue {
        Some(name) => match number_of(connection, name)? {
            Some(number) => Some(number),
            None => return Ok(FoundRecords::default()),
        },
        None => None,
    };
    let Some((from, to)) = conditions::bounds(query) else {
        return Ok(FoundRecords::default());
    };
    let conditions = Conditions::of(query, queue);
    let way = Way::of(&conditions, &parts::all(connection)?);
    let (sql, looks_at) = (way.sql(query.order), way.looks_at());
    let mut statements = Vec::new();
    for _ in &way.values {
        statements.push(connection.prepare_cached(&sql)?);
    }
    let mut all = [values(from), values(to)].concat();
    let mut walks = Vec::new();
    for (statement, of_way) in statements.iter_mut().zip(way.values) {
        all.truncate(6);
        all.extend(of_way);
        let rows = statement.query(params_from_iter(&all))?;
        walks.push(Walk { rows, here: None });
    }
    let mut next_of = |walk: &mut Walk<'_>| -> rusqlite::Result<()> {
        walk.here = match walk.rows.next()? {
            Some(row) => Some(look(connection, &mut names, &conditions, row)?),
            None => None,
        };
        Ok(())
    };
    for walk in &mut walks {
        next_of(walk)?;
    }
    let mut found = FoundRecords::default();
    let mut looked_at = 0;
    let mut last = None;
    loop {
        let ahead = walks.iter_mut().filter(|walk| walk.here.is_some());
        let place = |walk: &&mut Walk<'_>| walk.here.as_ref().map(|here| here.place);
        let walk = match query.order {
            Order::Oldest => ahead.min_by_key(place),
            Order::Newest => ahead.max_by_key(place),
        };
        let Some((walk, here)) = walk.and_then(|walk| walk.here.take().map(|here| (walk, here)))
        else {
            return Ok(found);
        };
        let is_full = found.records.len() == query.page_len();
        if looked_at == looks_at || is_full && (here.found.is_some() || way.index != TENTHS) {
            found.next = last;
            return Ok(found);
        }
        // In its tenths of a second a queue is not alone: rows of others make no next page.
        if !is_full {
            last = Some(cursor(here.place));
        }
        looked_at += 1;
        found.records.extend(here.found);
        found.skipped += u64::from(here.is_damaged);
        next_of(walk)?;
    }
}

/// What there is at a row.
fn look(
    connection: &Connection,
    names: &mut Names,
    conditions: &Conditions<'_>,
    row: &Row<'_>,
) -> rusqlite::Result<Here> {
    let place = (
        row.get(at::FINISHED)?,
        row.get(at::NUMBER)?,
        row.get(at::EVENT)?,
    );
    let (mut found, mut is_damaged) = (None, false);
    if conditions.matches(row)? {
        let queue = name_of(connection, names, row.get(at::QUEUE)?)?;
        found = queue.and_then(|queue| rows::read(row, queue));
        is_damaged = found.is_none();
        if is_damaged {
            let cursor = cursor(place);
            panics::reported(
                || tracing::error!(%cursor, "skipped a journal row that is not a record"),
            );
        }
    }
    Ok(Here {
        place,
        found,
        is_damaged,
    })
}

fn values((finished, number, event): Bound) -> [Value; 3] {
    [
        Value::Integer(finished),
        Value::Integer(number),
        Value::Blob(event),
    ]
}

fn cursor((finished, number, event): Place) -> Cursor {
    Cursor {
        finished_us: finished.cast_unsigned(),
        number: number.cast_unsigned(),
        id: crate::event::EventId::from_bytes(event),
    }
}
