//! The views: the journal as other tools read it.

use crate::sqlite::records::tenths;

/// The alphabet of an event id.
const ALPHABET: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// What makes the views.
pub(super) fn all() -> String {
    let id = id("records.event");
    let finished = time_us("records.finished");
    let tenths = tenths::join();
    let history = format!(
        "CREATE VIEW history AS
SELECT
  {id} AS id,
  queues.name AS queue,
  records.key AS key,
  records.attempt AS attempt,
  outcomes.name AS outcome,
  causes.name AS cause,
  {due} AS due,
  {moved} AS moved,
  {fetched} AS fetched,
  {started} AS started,
  {finished} AS finished,
  CASE WHEN records.started > 0 THEN max(records.started - records.due * 1000, 0) END AS late_us,
  CASE WHEN records.node <> 0 THEN printf('%016x', records.node) END AS node,
  records.error AS error,
  CASE WHEN records.trace IS NOT NULL THEN lower(hex(records.trace)) END AS trace,
  CASE typeof(records.payload) WHEN 'text' THEN records.payload END AS payload,
  records.by AS by,
  records.number AS number,
  records.event AS event
FROM records
{tenths}
JOIN queues ON queues.number = records.queue
JOIN outcomes ON outcomes.number = records.outcome
LEFT JOIN causes ON causes.number = records.cause
WHERE records.part IN (SELECT number FROM parts);",
        due = time_ms("records.due"),
        moved = time_us("nullif(records.moved, 0)"),
        fetched = time_us("nullif(records.fetched, 0)"),
        started = time_us("nullif(records.started, 0)"),
    );
    // Written as what is not there, so that a filter on any column reaches an index. Every record
    // is of one of the parts; that this is said lets a filter on the key reach its index in each.
    let tasks = format!(
        "CREATE VIEW tasks AS
SELECT
  {id} AS id,
  {created} AS created,
  {finished} AS modified,
  records.key AS business_id,
  queues.name AS business_type,
  CASE
    WHEN outcomes.name = 'acked' THEN 'processed'
    WHEN outcomes.name IN ('cancelled', 'expired', 'discarded', 'dropped') THEN 'cancelled'
    ELSE 'pending'
  END AS status,
  {due} AS action_time,
  CASE typeof(records.payload) WHEN 'text' THEN records.payload END AS attributes,
  records.event AS event
FROM records
{tenths}
JOIN queues ON queues.number = records.queue
JOIN outcomes ON outcomes.number = records.outcome
WHERE records.part IN (SELECT number FROM parts) AND NOT EXISTS (
  SELECT 1 FROM records AS later
  WHERE later.event = records.event
    AND later.queue = records.queue
    AND (later.finished, later.number) > (records.finished, records.number)
);",
        created = time_ms(&format!("({})", created_ms("records.event"))),
        due = time_ms("records.due"),
    );
    format!("{history}\n{tasks}")
}

/// The value of the hexadecimal digit at `place` of a blob, from 0.
fn digit(blob: &str, place: usize) -> String {
    let from = place + 1;
    format!("(instr('0123456789ABCDEF', substr(hex({blob}), {from}, 1)) - 1)")
}

/// The 26 letters of an event id: letter n is the five bits that end with bit 5n + 2 of 128.
fn id(blob: &str) -> String {
    let letters = (0..26).map(|letter| {
        let last = 5 * letter + 2;
        let (two, one) = (last / 4, (last.max(4) - 4) / 4);
        let bits = if two == one {
            digit(blob, two)
        } else {
            format!("(({} << 4) + {})", digit(blob, one), digit(blob, two))
        };
        let behind = 3 - last % 4;
        format!("substr('{ALPHABET}', (({bits} >> {behind}) & 31) + 1, 1)")
    });
    letters.collect::<Vec<_>>().join("\n    || ")
}

/// When an event was made, in ms: the first 48 bits of its id.
fn created_ms(blob: &str) -> String {
    let digits = (0..12).map(|place| format!("({} << {})", digit(blob, place), 44 - 4 * place));
    digits.collect::<Vec<_>>().join(" + ")
}

/// Microseconds as UTC, for example `2026-03-01T12:00:00.000001Z`; null beyond the year 9999.
fn time_us(us: &str) -> String {
    format!(
        "strftime('%Y-%m-%dT%H:%M:%S', {us} / 1000000, 'unixepoch') \
         || printf('.%06dZ', {us} % 1000000)"
    )
}

/// Milliseconds as UTC, for example `2026-03-01T12:00:00.001Z`; null beyond the year 9999.
fn time_ms(ms: &str) -> String {
    format!(
        "strftime('%Y-%m-%dT%H:%M:%S', {ms} / 1000, 'unixepoch') \
         || printf('.%03dZ', {ms} % 1000)"
    )
}
