//! The statements of the rows that wait, and their replies.

use duly::__outbox::{PlainEvent, plain_id};
use duly::time::Timestamp;
use duly::{EventId, Result};

use crate::mysql::sql::{Statement, by_keys, claim, is_free, text};
use crate::relay::source::{Closing, PAGE_BYTES, Row, RowContent};
use crate::session::{TextRow, unhex, unreadable};

/// The columns of a row that was written by plain SQL, and those of both kinds.
const PLAIN: &str = "queue, payload, due, id, options";

/// Returns the statement that lists rows behind a number that may be claimed, with their sizes.
pub(super) fn find(own: &str, behind: i64, limit: usize) -> String {
    format!(
        "select n, coalesce(length(event), length(payload)) from duly_outbox force index (primary) \
         where n > {behind} and {} order by n limit {limit}",
        is_free(own)
    )
}

/// Reads the keys of a list of rows with their sizes: as many as fit into a page.
pub(super) fn read_keys(texts: &[TextRow]) -> Result<Vec<i64>> {
    let (mut keys, mut size) = (Vec::with_capacity(texts.len()), 0);
    for row in texts {
        let number = |at: usize| row.get(at)?.as_deref()?.parse::<i64>().ok();
        let (Some(key), Some(len)) = (number(0), number(1)) else {
            return Err(unreadable("list of rows"));
        };
        keys.push(key);
        size += usize::try_from(len).unwrap_or(0);
        if size >= PAGE_BYTES {
            break;
        }
    }
    Ok(keys)
}

/// Returns the statements that claim rows for the relay `own`, and read those that it has then.
pub(super) fn take(own: &str, keys: &[i64]) -> Vec<Statement> {
    let read = format!(
        "select o.n, o.repeated, o.event as bytes, {PLAIN}, o.at, o.anew, \
         (select salt from duly_outbox_salt) from {} \
         where o.holder = '{own}' order by o.n",
        by_keys("duly_outbox", keys)
    );
    vec![claim("duly_outbox", own, keys).into(), read.into()]
}

/// Reads the rows of [`take`], with their keys.
pub(super) fn read(texts: &[TextRow]) -> Result<(Vec<i64>, Vec<Row>)> {
    let (mut keys, mut rows) = (Vec::with_capacity(texts.len()), Vec::new());
    for texts in texts {
        let text = |at: usize| texts.get(at).and_then(Option::as_deref);
        let number = |at: usize| text(at).and_then(|text| text.parse::<i64>().ok());
        let (Some(key), Some(claims), Some(at)) = (number(0), number(1), number(8)) else {
            return Err(unreadable("rows"));
        };
        let content = content(text, key, at);
        let own_claim = i64::from(matches!(content, RowContent::Staged(_)));
        keys.push(key);
        rows.push(Row {
            is_repeated: claims > own_claim,
            is_anew: text(9) == Some("1"),
            content,
        });
    }
    Ok((keys, rows))
}

fn content<'a>(text: impl Fn(usize) -> Option<&'a str>, n: i64, at: i64) -> RowContent {
    if let Some(event) = text(2) {
        return match unhex(event) {
            Some(bytes) => RowContent::Staged(bytes),
            None => RowContent::Unreadable("the bytes of the event are no bytes".to_owned()),
        };
    }
    let millis = |ms: i64| Timestamp::from_millis(u64::try_from(ms).unwrap_or(0));
    let [queue, payload, salt] = [3, 4, 10].map(|at| text(at).unwrap_or_default());
    let id = match text(6) {
        Some(id) => id.parse::<EventId>(),
        None => Ok(plain_id(salt, (n, millis(at)), [queue, payload])),
    };
    match id {
        Ok(id) => RowContent::Plain(PlainEvent {
            queue: queue.to_owned(),
            payload: payload.to_owned(),
            due: text(5).and_then(|due| due.parse().ok()).map(millis),
            at: millis(at),
            id,
            is_id_chosen: text(6).is_some(),
            options: text(7).unwrap_or("{}").to_owned(),
        }),
        Err(error) => RowContent::Unreadable(error.to_string()),
    }
}

/// Returns the statements that settle the rows of a page which the relay `own` has claimed. They
/// return how many rows were deleted, as [`read_deleted`] reads it.
pub(super) fn close(own: &str, keys: &[i64], closing: &Closing) -> Vec<Statement> {
    let (passed, rest) = keys.split_at(closing.passed.min(keys.len()));
    let key = |at: usize| passed.get(at).copied().unwrap_or_default();
    let mut statements: Vec<Statement> = Vec::new();
    let goes_on = [
        closing.refused.len(),
        closing.instead.len(),
        closing.deferred.len(),
    ];
    if goes_on.iter().sum::<usize>() > 0 {
        // Another relay that has claimed them since may be settling them: what it has deleted is not
        // read by the next statements.
        let locked = by_keys("duly_outbox", passed);
        statements.push(format!("select null from {locked} for update").into());
    }
    // Another relay that has claimed one since may have pushed it.
    for row in &closing.refused {
        let insert = format!(
            "insert into duly_outbox_refused (at, reason, repeated, event, {PLAIN}) \
             select at, {}, {} or holder <> '{own}' and event is not null, event, {PLAIN} \
             from duly_outbox where n = {}",
            text(&row.reason),
            u8::from(row.is_repeated),
            key(row.row)
        );
        statements.push(insert.into());
    }
    for row in &closing.instead {
        statements.push(Statement::with_bytes(&row.event, |event| {
            format!(
                "insert into duly_outbox (at, repeated, event) \
                 select at, {}, {event} from duly_outbox where n = {}",
                u8::from(row.is_repeated),
                key(row.place)
            )
        }));
    }
    for row in &closing.deferred {
        let insert = format!(
            "insert into duly_outbox_deferred (at, repeated, anew, bucket, event) \
             select at, {} or holder <> '{own}', anew, {}, event from duly_outbox where n = {}",
            u8::from(row.is_repeated),
            text(&row.group),
            key(row.place)
        );
        statements.push(insert.into());
    }
    if !passed.is_empty() {
        let rows = by_keys("duly_outbox", passed);
        statements.push(format!("delete o from {rows}").into());
        statements.push("select row_count()".to_owned().into());
    }
    if !rest.is_empty() {
        // None of them was pushed by this relay, unless it says so.
        let pushed = u8::from(!closing.is_repeated);
        let update = format!(
            "update {} set o.holder = '', \
             o.repeated = o.repeated - if(o.event is null, 0, {pushed}) \
             where o.holder = '{own}'",
            by_keys("duly_outbox", rest)
        );
        statements.push(update.into());
    }
    statements
}

/// Reads how many rows were deleted by [`close`].
pub(super) fn read_deleted(texts: &[TextRow]) -> u64 {
    let count = |row: &TextRow| row.first()?.as_deref()?.parse::<u64>().ok();
    texts.iter().filter_map(count).sum()
}
