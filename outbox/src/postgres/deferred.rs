//! The statements of deferred rows.

use duly::Result;

use crate::postgres::session::{bytes, text};
use crate::relay::source::{CLAIM, DeferredRow, GROUPS_MAX, PAGE_BYTES, Settling};
use crate::session::{TextRow, unhex, unreadable};

const BEGIN: &str = "begin isolation level read committed";

/// Returns the statement that lists the groups behind a name: each is one step through the index.
pub(crate) fn groups(behind: &str) -> String {
    let behind = text(behind);
    format!(
        "with recursive found as ( \
             (select bucket from duly_outbox_deferred where bucket > {behind} \
                 order by bucket limit 1) union all \
             select (select d.bucket from duly_outbox_deferred d where d.bucket > found.bucket \
                 order by d.bucket limit 1) from found where found.bucket is not null) \
         select bucket from found where bucket is not null limit {GROUPS_MAX}"
    )
}

/// Reads the rows of [`groups`].
pub(crate) fn read_groups(texts: &[TextRow]) -> Result<Vec<String>> {
    let name = |row: &TextRow| row.first().cloned().flatten();
    let names: Option<Vec<_>> = texts.iter().map(name).collect();
    names.ok_or_else(|| unreadable("groups of deferred rows"))
}

/// Returns the statements that claim rows of a group for the relay `own`, up to the first that another
/// one has, and read them.
pub(crate) fn take(own: &str, group: &str, behind: i64, limit: usize) -> String {
    let (group, seconds) = (text(group), CLAIM.as_secs());
    // Of the index of groups the rows of this one, from `behind` on: by the primary key the server would
    // walk those of all.
    // A row that another one has locked is not the next, and those behind it are not, either.
    format!(
        "{BEGIN}; with listed as materialized (select key from duly_outbox_deferred \
             where (bucket, key) > ({group}, {behind}::bigint) and bucket <= {group} \
             order by bucket, key limit {limit}), \
         locked as materialized (select d.key, d.repeated, octet_length(d.event) as bytes, \
             d.holder in ('', '{own}') or d.until <= clock_timestamp() \
                 or d.until > clock_timestamp() + interval '1 minute' as is_free \
             from duly_outbox_deferred d join listed using (key) \
             order by d.key for update of d skip locked), \
         taken as (select key, repeated from (select key, locked.repeated, \
             sum(bytes) over up_to_it - bytes as bytes_before, \
             bool_and(coalesce(is_free, false)) over up_to_it as is_next \
             from listed left join locked using (key) \
             window up_to_it as (order by key rows unbounded preceding)) as next \
         where bytes_before < {PAGE_BYTES} and is_next) \
         update duly_outbox_deferred d set repeated = true, holder = '{own}', \
             until = clock_timestamp() + interval '{seconds} s' \
             from taken where d.key = taken.key \
             returning d.key, taken.repeated, encode(d.event, 'hex'), d.anew; commit"
    )
}

/// Reads the rows of [`take`].
pub(crate) fn read(texts: &[TextRow]) -> Result<Vec<DeferredRow>> {
    let row = |texts: &TextRow| {
        let text = |at: usize| texts.get(at).and_then(Option::as_deref);
        Some(DeferredRow {
            key: text(0)?.parse().ok()?,
            is_repeated: text(1)? == "t",
            event: unhex(text(2)?)?,
            is_anew: text(3)? == "t",
        })
    };
    let rows: Option<Vec<_>> = texts.iter().map(row).collect();
    rows.ok_or_else(|| unreadable("deferred rows"))
}

/// Returns the statement that gives back what the relay `own` has claimed.
pub(crate) fn release(own: &str) -> String {
    format!("update duly_outbox_deferred set holder = '' where holder = '{own}'")
}

/// Returns the statements that settle rows which the relay `own` has claimed. A row that another one
/// has settled meanwhile is not settled again.
pub(crate) fn settle(own: &str, settling: &Settling) -> String {
    let mut sql = BEGIN.to_owned();
    if settling.refused.is_empty() && settling.instead.is_empty() {
        // Lost in a crash of the server, the rows are pushed once more, as ones that may have been.
        sql += "; set local synchronous_commit = off";
    }
    if !settling.gone.is_empty() {
        let keys = list(&settling.gone);
        sql += &format!("; delete from duly_outbox_deferred where key in ({keys})");
    }
    if !settling.refused.is_empty() {
        let rows = settling.refused.iter();
        let rows: Vec<_> = rows
            .map(|it| {
                format!(
                    "({}::bigint, {}, {})",
                    it.row,
                    text(&it.reason),
                    it.is_repeated
                )
            })
            .collect();
        sql += &format!(
            "; with gone as (delete from duly_outbox_deferred d \
                 using (values {}) as v (key, reason, is_repeated) \
                 where d.key = v.key returning d.at, d.event, v.reason, \
                 v.is_repeated or d.holder <> '{own}' as is_repeated) \
             insert into duly_outbox_refused (n, at, reason, repeated, event) \
             select nextval('duly_outbox_n'), at, reason, is_repeated, event from gone",
            rows.join(",")
        );
    }
    if !settling.instead.is_empty() {
        let rows = settling.instead.iter();
        let rows: Vec<_> = rows
            .map(|(key, event)| format!("({key}::bigint, {})", bytes(event)))
            .collect();
        sql += &format!(
            "; with gone as (delete from duly_outbox_deferred d using (values {}) as v (key, instead) \
             where d.key = v.key returning d.key, d.at, v.instead) \
             insert into duly_outbox (at, event) select at, instead from gone order by key",
            rows.join(",")
        );
    }
    for (keys, repeated) in [(&settling.maybe, true), (&settling.never, false)] {
        if !keys.is_empty() {
            sql += &format!(
                "; update duly_outbox_deferred set repeated = {repeated}, holder = '', \
                 tries = least(tries, 1000000) + 1 where key in ({}) and holder = '{own}'",
                list(keys)
            );
        }
    }
    sql + "; commit"
}

fn list(keys: &[i64]) -> String {
    let keys: Vec<_> = keys.iter().map(i64::to_string).collect();
    keys.join(",")
}
