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

/// Returns the statement that claims rows of a table for the relay `own`, unless others have.
pub(super) fn claim(table: &str, own: &str, keys: &[i64]) -> String {
    format!(
        "update {} set o.holder = '{own}', o.held_until = {NOW} + {millis}, \
         o.repeated = if(o.repeated < {REPEATED_MAX}, o.repeated + 1, o.repeated) where {free}",
        by_keys(table, keys),
        millis = CLAIM.as_millis(),
        free = is_free(own)
    )
}

/// Returns a text as an expression, whatever its characters are.
pub(super) fn text(text: &str) -> String {
    format!("convert({} using utf8mb4)", bytes(text.as_bytes()))
}

/// Returns bytes as an expression.
pub(super) fn bytes(bytes: &[u8]) -> String {
    format!("x'{}'", hex(bytes))
}
