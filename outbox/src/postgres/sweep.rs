//! Room: partitions all of whose rows are settled are truncated, and so is the table of deferred rows
//! once there is none; old ends are deleted.

use std::time::Duration;

use duly::Result;
use duly::time::Timestamp;

use crate::postgres::snapshot::ended_since;
use crate::relay::source::{LIMIT, StoredLimit};
use crate::session::{TextRow, unreadable};

/// The numbers of the partitions of events.
pub(crate) const PARTS: [u8; 3] = [0, 1, 2];
/// The numbers of the partitions of steps.
pub(crate) const STEP_PARTS: [u8; 2] = [0, 1];
/// A partition with less is left as it is, except for [`LEFT_FOR`].
pub(crate) const ROOM_MIN: u64 = 1 << 20;
/// How long a partition with few rows is left as it is.
pub(crate) const LEFT_FOR: Duration = Duration::from_secs(600);
/// The most ends that one sweep deletes.
const DONE_MAX: u32 = 10_000;

/// The table of deferred rows. Those that are settled are deleted, and stay in the way of each look for
/// others for as long as somebody holds an old snapshot. A relay that was granted its rights before it
/// was truncated leaves them there.
const DEFERRED: &str = "duly_outbox_deferred";

/// Returns the statement that lists what may be truncated, if it has more than `room` bytes: the
/// partitions into which no new transaction writes, and the table of deferred rows unless it has any.
pub(crate) fn candidates(room: u64, has_deferred: bool) -> String {
    let mut parts = Vec::new();
    for part in PARTS {
        parts.push(format!(
            "select 'duly_outbox_{part}' as name, \
             extract(epoch from now())::bigint / 10 % 3 <> {part} as is_free"
        ));
    }
    for part in STEP_PARTS {
        parts.push(format!(
            "select 'duly_outbox_step_{part}', coalesce((select n / {steps} % 2 <> {part} \
             from duly_outbox_step order by n desc limit 1), false)",
            steps = crate::postgres::step::STEPS_IN_PART
        ));
    }
    parts.push(format!(
        "select '{DEFERRED}', {} and has_table_privilege('{DEFERRED}', 'truncate')",
        !has_deferred
    ));
    format!(
        "select name from ({}) as parts where is_free and pg_relation_size(name::regclass) > {room}",
        parts.join(" union all ")
    )
}

/// Returns the statements that truncate a partition, or the table of deferred rows, if all of its rows
/// are settled.
///
/// Under the lock no transaction has rows in it that are not visible yet, and what is seen is as new
/// as the lock. The lock is not waited for, since all who write would wait behind; nor is it taken
/// where rows are seen without it, since standbys take it, too, and wait there for all who read.
pub(crate) fn truncate(name: &str) -> String {
    let kept = if name == DEFERRED {
        format!("select from {DEFERRED} limit 1")
    } else if name.starts_with("duly_outbox_step") {
        format!(
            "select from {name} where n = (select n from duly_outbox_step order by n desc limit 1)"
        )
    } else {
        // Each is a look into the index: neither rows that a transaction keeps there are walked, nor
        // its own, of which none is visible. While it runs, the lock is refused.
        let done = "(select done from duly_outbox_step order by n desc limit 1)";
        let late = ended_since(
            done,
            &format!("select from {name} o where o.xid = late.xid limit 1"),
        );
        format!(
            "(select from {name} where xid >= pg_snapshot_xmax({done}) limit 1) union all \
             (select from {late})"
        )
    };
    format!(
        "begin isolation level read committed; \
         do $$ begin if exists (select from duly_outbox_step) and not exists ({kept}) then \
             lock table {name} in access exclusive mode nowait; \
             if not exists ({kept}) then truncate {name}; end if; \
         end if; end $$; commit"
    )
}

/// Returns a time as SQL.
fn time(time: Timestamp) -> String {
    format!(
        "'epoch'::timestamptz + {} * interval '1 ms'",
        time.as_millis()
    )
}

/// Returns the statement that reads the time, that of the oldest end since `from`, and the limit.
pub(crate) fn ends(from: Timestamp) -> String {
    format!(
        "select (extract(epoch from clock_timestamp()) * 1000)::bigint, \
         (select (extract(epoch from min(at)) * 1000)::bigint from duly_done where at >= {}), {LIMIT}",
        time(from)
    )
}

/// Returns the statement that stores the limit.
pub(crate) fn limit(limit: StoredLimit) -> String {
    format!(
        "insert into duly_done_limit values ({}) on conflict (only_row) do update set \
         ends_before = excluded.ends_before, stands_until = excluded.stands_until",
        limit.values()
    )
}

/// Returns the statement that deletes the oldest ends of a span.
pub(crate) fn delete_done(from: Timestamp, before: Timestamp) -> String {
    format!(
        "with deleted as (delete from duly_done where event in (select event from duly_done \
         where at >= {} and at < {} order by at limit {DONE_MAX}) returning at) \
         select case count(*) when {DONE_MAX} then floor(extract(epoch from max(at)) * 1000)::bigint end \
         from deleted",
        time(from),
        time(before)
    )
}

/// Reads the time of the last end that [`delete_done`] has deleted, if it was as many as it may.
pub(crate) fn read_last(texts: &[TextRow]) -> Result<Option<Timestamp>> {
    let text = texts.first().and_then(|row| row.first());
    let text = text.ok_or_else(|| unreadable("count of ends"))?;
    let last = |text: &String| text.parse().map(Timestamp::from_millis);
    let last = text.as_ref().map(last).transpose();
    last.map_err(|_| unreadable("time of ends"))
}
