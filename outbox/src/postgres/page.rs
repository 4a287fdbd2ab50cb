//! A page: the rows that one step pushes, in their order.

use duly::__outbox::PlainEvent;
use duly::EventId;
use duly::time::Timestamp;

use crate::postgres::step::Step;
use crate::relay::source::{PAGE_BYTES, Row, RowContent};
use crate::session::{TextRow, unhex, unreadable};

/// Rows that were read, and where they are.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Row>,
    /// The transaction and the number of each row.
    pub(crate) places: Vec<(u64, u64)>,
    /// Whether they may have been pushed before they were claimed.
    pub(crate) is_repeated: bool,
    /// How many rows were listed for it.
    pub(crate) found: usize,
    /// Whether there are no more in what is being read.
    pub(crate) is_last: bool,
}

const COLUMNS: &str = "o.xid, o.n, o.repeated, o.event, o.queue, o.payload, o.due, o.id, \
                       o.options, o.at, o.anew";

/// Returns a text of the user's; null if it cannot be sent, since the whole page would fail with it.
fn sendable(text: &str) -> String {
    format!(
        "case when getdatabaseencoding() = 'UTF8' or duly_outbox_is_utf8({text}) then {text} end"
    )
}

/// What an infinite time reads as: it is no number of milliseconds.
const FOREVER: i64 = i64::MAX;

/// Returns the condition of the rows `o` of a transaction `late` that were not passed, as a bound of
/// the index beside its number: such a transaction may have as many rows as it likes.
pub(crate) fn late_after((xid, n): (u64, u64)) -> String {
    format!("o.n > case when late.xid = '{xid}'::xid8 then {n}::bigint else -1 end")
}

/// Returns the condition of the rows `o` that `step` has not passed, of transactions that have
/// begun since its `done` was taken.
///
/// It is one bound of the index. Of two a server takes the first as the place to begin at, and that
/// may be before all that a partition holds.
pub(crate) fn behind(step: &Step) -> String {
    let (from, (xid, n)) = (step.done.xmax(), step.passed);
    if xid < from {
        format!("o.xid >= '{from}'::xid8")
    } else {
        format!("(o.xid, o.n) > ('{xid}'::xid8, {n}::bigint)")
    }
}

/// Returns the statement that reads the rows that `claim` is to push, of at most `limit` that it lists.
///
/// They are those whose transactions are visible in `reading` and not in `done`: first those that
/// ran when `done` was taken and have ended since, then those that have begun since. Each is a range
/// of the index, so that rows that were passed before are not read again.
pub(crate) fn select(claim: &Step, limit: usize) -> String {
    let (xid, n) = claim.passed;
    let (late, newer) = match &claim.reading {
        Some(reading) => {
            let late = claim.done.ended_until(reading);
            let late = late.iter().filter(|late| **late >= xid);
            let late: Vec<_> = late.map(|late| format!("'{late}'")).collect();
            let newer = format!(
                "{} and o.xid < '{}'::xid8 and pg_visible_in_snapshot(o.xid, '{reading}'::pg_snapshot)",
                behind(claim),
                reading.xmax(),
            );
            (late.join(","), newer)
        }
        None => (String::new(), "false".to_owned()),
    };
    let texts = [
        "queue",
        "payload::text",
        "id",
        "coalesce(options::text, '{}')",
    ];
    let [queue, payload, id, options] = texts.map(sendable);
    let late_after = late_after((xid, n));
    format!(
        "select xid, n, repeated, \
             encode(event, 'hex'), {queue}, {payload}, case due when 'infinity' then {FOREVER} \
                 when '-infinity' then 0 else (extract(epoch from due) * 1000)::bigint end, {id}, \
             {options}, case when isfinite(at) then (extract(epoch from at) * 1000)::bigint \
                 else {FOREVER} end, anew, m \
         from (select *, count(*) over () as m, \
             coalesce(sum(coalesce(octet_length(event), octet_length(payload::text))) over \
                 (order by xid, n rows between unbounded preceding and 1 preceding), 0) \
                 as bytes_before \
             from (select * from ( \
                 (select o.* from unnest(array[{late}]::xid8[]) as late (xid) \
                     cross join lateral (select {COLUMNS} from duly_outbox o \
                         where o.xid = late.xid and {late_after} order by o.xid, o.n limit {limit}) as o) \
                 union all \
                 (select {COLUMNS} from duly_outbox o where {newer} \
                     order by o.xid, o.n limit {limit}) \
             ) as found order by xid, n limit {limit}) as page \
         ) as counted where bytes_before < {PAGE_BYTES} order by xid, n"
    )
}

/// Reads the rows of [`select`].
pub(crate) fn read(texts: &[TextRow], limit: usize, is_repeated: bool) -> duly::Result<Page> {
    let mut page = Page {
        is_repeated,
        rows: Vec::with_capacity(texts.len()),
        places: Vec::with_capacity(texts.len()),
        found: 0,
        is_last: true,
    };
    for texts in texts {
        let text = |at: usize| texts.get(at).and_then(Option::as_deref);
        let number = |at: usize| text(at).and_then(|text| text.parse::<u64>().ok());
        let (Some(xid), Some(n), Some(found)) = (number(0), number(1), number(11)) else {
            return Err(unreadable("rows"));
        };
        page.places.push((xid, n));
        page.found = usize::try_from(found).unwrap_or(limit);
        let content = content(text).unwrap_or_else(RowContent::Unreadable);
        // What plain SQL wrote is not pushed itself.
        let was_pushed = is_repeated && matches!(content, RowContent::Staged(_));
        page.rows.push(Row {
            is_repeated: was_pushed || text(2) == Some("t"),
            is_anew: text(10) == Some("t"),
            content,
        });
    }
    page.is_last = page.found < limit && page.found == page.rows.len();
    Ok(page)
}

/// Reads what a row says; the error is why it cannot be read.
fn content<'a>(text: impl Fn(usize) -> Option<&'a str>) -> Result<RowContent, String> {
    if let Some(event) = text(3) {
        let event = unhex(event).ok_or("the bytes of the event are no bytes")?;
        return Ok(RowContent::Staged(event));
    }
    let sent = |at: usize, name: &str| {
        text(at).ok_or_else(|| format!("the {name} is not UTF-8, or has no equivalent there"))
    };
    let id = sent(7, "id")?;
    let millis = |ms: i64| Timestamp::from_millis(u64::try_from(ms).unwrap_or(0));
    let time = |at: usize| text(at)?.parse().ok().map(millis);
    Ok(RowContent::Plain(PlainEvent {
        id: id.parse::<EventId>().map_err(|error| error.to_string())?,
        is_id_chosen: false, // the options have one that was
        queue: sent(4, "queue")?.to_owned(),
        payload: sent(5, "payload")?.to_owned(),
        due: time(6),
        at: time(9).unwrap_or(Timestamp::EPOCH),
        options: sent(8, "options")?.to_owned(),
    }))
}
