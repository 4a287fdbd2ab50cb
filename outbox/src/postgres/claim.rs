//! The statements of a step: a claim with its page, a close, and a start from nothing.

use std::time::Duration;

use crate::postgres::page;
use crate::postgres::session::{bytes, text};
use crate::postgres::step::{STEPS_IN_PART, Step};
use crate::relay::source::Closing;

/// Each statement sees what is committed when it begins.
const BEGIN: &str = "begin isolation level read committed";
/// Once a claim is on the disk, so are the commits of the rows that it reads: none is pushed that an end
/// of the server may still lose, where commits do not wait for the disk.
const FLUSHED: &str = "set local synchronous_commit = local";

/// Returns the statements that claim rows and read them, at most `limit`: the first row of the reply is
/// the number of the step, unless another relay was faster.
pub(crate) fn claim(claim: &Step, hold: Duration, limit: usize) -> String {
    format!(
        "{BEGIN}; {FLUSHED}; {}; {}; commit",
        claim.insert(hold),
        page::select(claim, limit)
    )
}

/// Returns the statement that writes a step, and with it what becomes of the rows that it passes. It
/// returns the number of the step, unless another relay was faster; then it does nothing.
pub(crate) fn close(
    (step, hold): (&Step, Duration),
    places: &[(u64, u64)],
    closing: &Closing,
) -> String {
    let mut sql = format!("with step as ({})", step.insert(hold));
    let place = |at: usize| places.get(at).copied().unwrap_or_default();
    if !closing.refused.is_empty() {
        let rows = closing.refused.iter().map(|row| {
            let (xid, n) = place(row.row);
            let (reason, repeated) = (text(&row.reason), row.is_repeated);
            format!("('{xid}'::xid8, {n}::bigint, {reason}, {repeated})")
        });
        let rows: Vec<_> = rows.collect();
        sql += &format!(
            ", refused as (insert into duly_outbox_refused \
             (n, at, reason, repeated, event, queue, payload, due, id, options) \
             select o.n, o.at, v.reason, v.repeated, o.event, o.queue, o.payload, o.due, o.id, \
             o.options from step, (values {}) as v (xid, n, reason, repeated), duly_outbox o \
             where o.xid = v.xid and o.n = v.n)",
            rows.join(",")
        );
    }
    if !closing.instead.is_empty() {
        let rows = closing.instead.iter().map(|row| {
            let (xid, n) = place(row.place);
            let (event, repeated) = (bytes(&row.event), row.is_repeated);
            format!("('{xid}'::xid8, {n}::bigint, {event}, {repeated})")
        });
        let rows: Vec<_> = rows.collect();
        sql += &format!(
            ", instead as (insert into duly_outbox (at, repeated, event) \
             select o.at, v.repeated, v.event \
             from step, (values {}) as v (xid, n, event, repeated), duly_outbox o \
             where o.xid = v.xid and o.n = v.n order by o.xid, o.n)",
            rows.join(",")
        );
    }
    if !closing.deferred.is_empty() {
        let rows = closing.deferred.iter().map(|row| {
            let (xid, n) = place(row.place);
            let (group, repeated) = (text(&row.group), row.is_repeated);
            format!("('{xid}'::xid8, {n}::bigint, {group}, {repeated})")
        });
        let rows: Vec<_> = rows.collect();
        sql += &format!(
            ", deferred as (insert into duly_outbox_deferred (at, repeated, anew, event, bucket) \
             select o.at, v.repeated, o.anew, o.event, v.bucket \
             from step, (values {}) as v (xid, n, bucket, repeated), duly_outbox o \
             where o.xid = v.xid and o.n = v.n order by o.xid, o.n)",
            rows.join(",")
        );
    }
    sql + " select n, mark from step"
}

/// Returns the statement by which other relays go on where the relay `own` has stopped.
pub(crate) fn release(own: &str) -> String {
    format!(
        "insert into duly_outbox_step (n, part, cluster, done, reading, passed_xid, passed_n, \
         repeated, holder, until) select n + 1, (n + 1) / {STEPS_IN_PART} % 2, cluster, done, \
         reading, passed_xid, passed_n, repeated, '', clock_timestamp() \
         from (select * from duly_outbox_step order by n desc limit 1) as newest \
         where holder = '{own}'"
    )
}

/// It gets to its end however many rows there are, also once the relay has given it up; a lock does
/// not keep it waiting for ever.
const UNTIL_ITS_END: &str = "set local statement_timeout = 0; set local lock_timeout = '20s'";

/// Returns the statements that start from nothing: every row counts as new and as possibly pushed,
/// under the transaction ids of this database.
pub(crate) fn reset(step: &Step, hold: Duration) -> String {
    format!(
        "begin isolation level read committed; {UNTIL_ITS_END}; {}; \
         update duly_outbox set xid = pg_current_xact_id(), repeated = true \
         where exists (select from duly_outbox_step where n = {n} and holder = '{own}') \
         and (exists (select from duly_outbox_step where n < {n}) \
         or xid > pg_current_xact_id()); \
         update duly_outbox_deferred set repeated = true, holder = '' \
         where exists (select from duly_outbox_step where n = {n} and holder = '{own}'); commit",
        step.insert(hold),
        n = step.n,
        own = step.holder.as_deref().unwrap_or_default(),
    )
}
