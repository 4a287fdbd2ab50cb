//! The statement that counts what waits.

use std::time::Duration;

use crate::postgres::page;
use crate::postgres::snapshot::ended_since;
use crate::postgres::step::Step;
use crate::relay::source::Waiting;
use crate::session::TextRow;

/// As many rows are counted.
const COUNTED_MAX: usize = 100_000;

/// Returns the statement that counts the rows that `step` has not passed, and those beside them.
pub(crate) fn count(step: &Step) -> String {
    let behind = page::behind(step);
    let late_after = page::late_after(step.passed);
    let limit = COUNTED_MAX;
    let late = format!(
        "select at from duly_outbox o where o.xid = late.xid and {late_after} limit {limit}"
    );
    let late = ended_since(&format!("'{}'::pg_snapshot", step.done), &late);
    format!(
        "select count(*), coalesce((extract(epoch from clock_timestamp() - min(at)) \
         * 1000)::bigint, 0) from ((select o.at from duly_outbox o where {behind} \
         order by o.xid, o.n limit {limit}) union all (select o.at from {late} limit {limit}) \
         union all (select at from duly_outbox_deferred limit {limit})) as waiting; \
         select count(*) from (select from duly_outbox_deferred limit {limit}) as deferred; \
         select count(n) from (select n from duly_outbox_refused limit {limit}) as refused"
    )
}

/// Reads the rows of [`count`].
pub(crate) fn read(rows: &[TextRow]) -> Option<Waiting> {
    let number = |row: usize, at: usize| rows.get(row)?.get(at)?.as_deref()?.parse::<i64>().ok();
    let natural = |row: usize, at: usize| number(row, at).map(|it| u64::try_from(it).unwrap_or(0));
    Some(Waiting {
        rows: natural(0, 0)?,
        oldest: Duration::from_millis(natural(0, 1)?),
        deferred: natural(1, 0)?,
        refused: natural(2, 0)?,
    })
}
