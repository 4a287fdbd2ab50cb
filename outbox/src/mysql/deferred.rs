//! The statements of deferred rows, and their replies.

use duly::Result;

use crate::mysql::sql::{Statement, by_keys, claim, is_free, text};
use crate::relay::source::{DeferredRow, GROUPS_MAX, Settling};
use crate::session::{TextRow, unhex, unreadable};

const TABLE: &str = "duly_outbox_deferred";

/// Returns the statement that lists the groups behind a name: each is one step through the index.
pub(super) fn groups(behind: &str) -> String {
    format!(
        "select distinct bucket from duly_outbox_deferred where bucket > {} \
         order by bucket limit {GROUPS_MAX}",
        text(behind)
    )
}

/// Reads the rows of [`groups`].
pub(super) fn read_groups(texts: &[TextRow]) -> Result<Vec<String>> {
    let name = |row: &TextRow| row.first().cloned().flatten();
    let names: Option<Vec<_>> = texts.iter().map(name).collect();
    names.ok_or_else(|| unreadable("groups of deferred rows"))
}

/// Returns the statement that lists rows of a group, with their sizes and whether they may be claimed.
pub(super) fn find(own: &str, group: &str, behind: i64, limit: usize) -> String {
    format!(
        "select n, length(event), {} from duly_outbox_deferred where bucket = {} and n > {behind} \
         order by n limit {limit}",
        is_free(own),
        text(group)
    )
}

/// Returns the rows of [`find`] up to the first that another relay has.
pub(super) fn free(mut found: Vec<TextRow>) -> Vec<TextRow> {
    let is_held = |row: &TextRow| row.get(2).is_none_or(|free| free.as_deref() != Some("1"));
    let free = found.iter().position(is_held).unwrap_or(found.len());
    found.truncate(free);
    found
}

/// Returns the statements that claim rows for the relay `own`, and read those that it has then.
pub(super) fn take(own: &str, keys: &[i64]) -> Vec<Statement> {
    let read = format!(
        "select o.n, o.repeated, o.event as bytes, o.anew from {} where o.holder = '{own}' \
         order by o.n",
        by_keys(TABLE, keys)
    );
    vec![claim(TABLE, own, keys).into(), read.into()]
}

/// Reads the rows of [`take`].
pub(super) fn read(texts: &[TextRow]) -> Result<Vec<DeferredRow>> {
    let row = |texts: &TextRow| {
        let text = |at: usize| texts.get(at).and_then(Option::as_deref);
        Some(DeferredRow {
            key: text(0)?.parse().ok()?,
            is_repeated: text(1)?.parse::<i64>().ok()? > 1,
            event: unhex(text(2)?)?,
            is_anew: text(3)? == "1",
        })
    };
    let rows: Option<Vec<_>> = texts.iter().map(row).collect();
    rows.ok_or_else(|| unreadable("deferred rows"))
}

/// Returns the statement that gives back what the relay `own` has claimed.
pub(super) fn release(own: &str) -> String {
    format!("update duly_outbox_deferred set holder = '' where holder = '{own}'")
}

/// Returns the statements that settle rows which the relay `own` has claimed. A row that another one
/// has settled meanwhile is not settled again.
pub(super) fn settle(own: &str, settling: &Settling) -> Vec<Statement> {
    let refused = settling.refused.iter().map(|it| it.row);
    let moved: Vec<_> = refused
        .chain(settling.instead.iter().map(|(key, _)| *key))
        .collect();
    let mut statements: Vec<Statement> = Vec::new();
    if !moved.is_empty() {
        let locked = by_keys(TABLE, &moved);
        statements.push(format!("select null from {locked} for update").into());
    }
    for row in &settling.refused {
        let insert = format!(
            "insert into duly_outbox_refused (at, reason, repeated, event) \
             select at, {}, {} or holder <> '{own}', event from duly_outbox_deferred where n = {}",
            text(&row.reason),
            u8::from(row.is_repeated),
            row.row
        );
        statements.push(insert.into());
    }
    for (key, event) in &settling.instead {
        statements.push(Statement::with_bytes(event, |event| {
            format!(
                "insert into duly_outbox (at, event) \
                 select at, {event} from duly_outbox_deferred where n = {key}"
            )
        }));
    }
    for keys in [&moved, &settling.gone] {
        if !keys.is_empty() {
            statements.push(format!("delete o from {}", by_keys(TABLE, keys)).into());
        }
    }
    // Of those that were never accepted, this push counts for nothing.
    for (keys, pushed) in [(&settling.maybe, 0), (&settling.never, 1)] {
        if !keys.is_empty() {
            let update = format!(
                "update {} set o.holder = '', o.repeated = o.repeated - {pushed}, \
                 o.tries = least(o.tries, 1000000) + 1 where o.holder = '{own}'",
                by_keys(TABLE, keys)
            );
            statements.push(update.into());
        }
    }
    statements
}
