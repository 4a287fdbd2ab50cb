//! Pieces of statements.

use crate::relay::source::CLAIM;
use crate::session::hex;

/// The time of the database, in milliseconds since 1970.
pub(super) const NOW: &str =
    "(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000)";

/// A row is counted as pushed so often at most.
const REPEATED_MAX: u32 = 100;

/// Returns the condition that the relay `own` may claim a row. One that is held for longer than a
/// claim lasts was so by a clock that was wrong.
pub(super) fn is_free(own: &str) -> String {
    format!("(holder in ('', '{own}') or held_until <= {NOW} or held_until > {NOW} + 60000)")
}

/// Bytes that a statement has in it as digits; of more it has a value, since digits are twice as many.
const DIGITS_MAX: usize = 128 << 10;

/// A statement of a transaction.
pub(super) struct Statement {
    pub(super) sql: String,
    /// The value of its place.
    pub(super) value: Option<Vec<u8>>,
}

impl From<String> for Statement {
    fn from(sql: String) -> Self {
        Self { sql, value: None }
    }
}

impl Statement {
    /// Makes the statement with bytes in it, from their expression.
    pub(super) fn with_bytes(bytes: &[u8], sql: impl FnOnce(&str) -> String) -> Self {
        if bytes.len() > DIGITS_MAX {
            return Self {
                sql: sql("?"),
                value: Some(bytes.to_vec()),
            };
        }
        sql(&format!("x'{}'", hex(bytes))).into()
    }
}

/// Returns the rows `o` of a table that have these keys, for statements that lock them.
///
/// Each is looked up by itself: a list of keys the server may search by reading the whole table, and
/// it would wait there for the rows that a transaction of the user's has inserted.
pub(super) fn by_keys(table: &str, keys: &[i64]) -> String {
    let keys: Vec<_> = keys.iter().map(i64::to_string).collect();
    format!(
        "json_table('[{}]', '$[*]' columns (k bigint path '$')) as wanted \
         straight_join {table} as o force index (primary) on o.n = wanted.k",
        keys.join(",")
    )
}

/// Returns the rows `o` of finished events, in the same way.
pub(super) fn done_by_events(events: &[String]) -> String {
    let event = |event: &String| format!("\"{}\"", hex(event.as_bytes()));
    let events: Vec<_> = events.iter().map(event).collect();
    format!(
        "json_table('[{}]', '$[*]' columns (k varchar(4800) path '$')) as wanted \
         straight_join duly_done as o force index (primary) \
         on o.event = convert(unhex(wanted.k) using utf8mb4) collate utf8mb4_bin",
        events.join(",")
    )
}

/// Returns the statement that claims rows of a table for the relay `own`, unless others have. A claim of
/// what plain SQL wrote does not count: that is not pushed itself.
pub(super) fn claim(table: &str, own: &str, keys: &[i64]) -> String {
    format!(
        "update {} set o.holder = '{own}', o.held_until = {NOW} + {millis}, \
         o.repeated = o.repeated + (o.event is not null and o.repeated < {REPEATED_MAX}) \
         where {free}",
        by_keys(table, keys),
        millis = CLAIM.as_millis(),
        free = is_free(own)
    )
}

/// Returns a text as an expression, whatever its characters are.
pub(super) fn text(text: &str) -> String {
    format!("convert(x'{}' using utf8mb4)", hex(text.as_bytes()))
}
