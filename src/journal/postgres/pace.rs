//! The pace of pruning: how far a step may go, stored in the table `pruned`.

use std::time::Duration;

use tokio_postgres::{GenericClient, Row};

use super::copy::ordered;
use super::fault::PgError;
use crate::record::retention::{self, Pace, PruneAllowance, Times};
use crate::time::Timestamp;

/// A kind of rows with its own retention age.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Records,
    Minutes,
}

/// Returns how far a step may go, and stores it. One node prunes at a time, so there are no
/// concurrent updates.
pub(super) async fn allowed(
    step: &impl GenericClient,
    kind: Kind,
    age: Duration,
    at_once: bool,
    now: Timestamp,
) -> Result<PruneAllowance, PgError> {
    let (name, newest_minute, oldest) = match kind {
        Kind::Records => (
            "records",
            "NULL::bigint",
            "(SELECT finished FROM records ORDER BY finished LIMIT 1)",
        ),
        Kind::Minutes => (
            "minutes",
            "(SELECT (max(start) + 60000) * 1000 FROM minutes)",
            "(SELECT min(start) * 1000 FROM minutes)",
        ),
    };
    let sql = format!(
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
         greatest((SELECT finished FROM records ORDER BY finished DESC LIMIT 1), {newest_minute}), \
         {oldest}"
    );
    let found = step.query_typed_one(&sql, &[]).await?;
    let times = Times {
        store: now.as_micros(),
        clock: time(&found, 0)?.unwrap_or_default(),
        newest: time(&found, 1)?,
    };
    let sql = format!("SELECT since, begun, through FROM pruned WHERE what = '{name}'");
    let kept = match step.query_typed_opt(&sql, &[]).await? {
        Some(row) => Some(Pace {
            set: time(&row, 0)?.unwrap_or_default(),
            from: time(&row, 1)?.unwrap_or_default(),
            through: time(&row, 2)?.unwrap_or_default(),
        }),
        None => None,
    };
    let allowed = retention::allowed(age, at_once, times, kept, || time(&found, 2))?;
    let Pace { set, from, through } = allowed.pace;
    let (set, from, through) = (ordered(set), ordered(from), ordered(through));
    let sql = format!(
        "INSERT INTO pruned (what, since, begun, through) \
         VALUES ('{name}', {set}, {from}, {through}) ON CONFLICT (what) DO UPDATE \
         SET (since, begun, through) = (excluded.since, excluded.begun, excluded.through)"
    );
    step.execute_typed(&sql, &[]).await?;
    Ok(allowed)
}

/// A time in microseconds; one before the epoch counts as the epoch.
fn time(row: &Row, column: usize) -> Result<Option<u64>, PgError> {
    let time: Option<i64> = row.try_get(column)?;
    Ok(time.map(|time| u64::try_from(time).unwrap_or(0)))
}
